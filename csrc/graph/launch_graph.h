// The launch graph of a call: allocations, tensors that torch computes, and launches, in order. The first call records
// the graph. A call with the same signature replays it on its own tensors, without checks, plans or look-ups.
//
//   first call     arguments -> checks, problems, plans, kernels -> [allocate, make, launch ...] -> result
//   replay         arguments ------------------------------------> [allocate, make, launch ...] -> result
//
// Problems hold addresses. The graph turns each address into a Slot: a tensor of the call and an offset.
#pragma once

#include <functional>
#include <memory>

#include "graph/signature.h"

namespace torch_conv {

// An address: `offset` bytes from the beginning of the call's tensor `memory`. -1: `offset` is the address.
struct Slot {
  int memory;
  int64_t offset;
};

struct ReplayStreams;  // opaque here; sharding/split_streams.h

// One replay: the call's tensors, then the tensors that nodes have made so far.
struct Replay {
  std::vector<std::optional<Tensor>> memory;
  std::vector<char*> first;                  // the address of each tensor
  std::shared_ptr<ReplayStreams> on_shards;  // of a call on shards, whose nodes make and use them

  void add(const Tensor& t);
  const Tensor& tensor(int i) const { return *memory[i]; }
  // Tensor i in the shape that a node recorded.
  Tensor tensor(int i, const Sizes& shape) const;
  void* at(const Slot& slot) const {
    return slot.memory < 0 ? reinterpret_cast<void*>(slot.offset) : first[slot.memory] + slot.offset;
  }
};

class LaunchGraph {
 public:
  explicit LaunchGraph(const std::vector<Tensor>& given);

  int64_t number() const { return number_; }  // unique in the process
  int64_t held() const { return held_; }      // bytes of windows, which live as long as the graph

  // Records, in the order of the first call: an allocation, a tensor that torch or the host computes, any other action.
  void record_allocation(const Tensor& tensor);
  void record_tensor(const Tensor& tensor, std::function<Tensor(Replay&)> again);
  void record(std::function<void(Replay&)> act);
  // Keeps memory of this library, to which problems point, as long as the graph lives.
  void keep(std::shared_ptr<const void> owner, const void* data, int64_t bytes);
  // A call with the same signature for which the guard returns false is checked and planned. The guard holds `bytes`.
  void guard(std::function<bool(const std::vector<Tensor>& given)> holds, int64_t bytes = 0) {
    guards_.push_back(std::move(holds)), held_ += bytes;
  }
  // Drops all nodes: the call cannot be replayed.
  void invalidate();

  // The slot of an address, and the number of a tensor (or of one with the same elements in another shape). They
  // invalidate the graph if no tensor or several tensors match.
  Slot find(const void* address);
  int index_of(const Tensor& t);
  std::vector<int> indices_of(std::initializer_list<const Tensor*> tensors);  // without null

  // Ends the recording and drops all tensors. False: the call cannot be replayed.
  bool finish(const std::vector<Tensor>& results);
  // Whether these tensors have the signature of the first call's tensors.
  bool fits(const std::vector<Tensor>& given) const { return Signature(given).text() == given_; }
  // Whether all guards accept these tensors. Only then may the graph be replayed.
  bool guards_hold(const std::vector<Tensor>& given) const;
  std::vector<Tensor> replay(const std::vector<Tensor>& given) const;

 private:
  struct Memory {
    const char *first, *begin, *last;  // its first element, and the range that it spans, inclusive
    bool has_elements;
    int producer;        // node; -1: an argument
    int last_user = -1;  // the last node
  };
  struct Allocation {
    Device device;
    Sizes sizes, strides;
    ScalarType dtype;
  };
  struct Node {  // an allocation or an action
    std::optional<Allocation> allocation{};
    std::function<void(Replay&)> act{};
    std::vector<int> last_uses{};  // memory that no later node uses
  };

  void add(Node node);
  void remember(const Tensor& t, int producer);

  const int64_t number_;
  std::string given_;            // the signature of the arguments
  std::vector<Tensor> tensors_;  // until finish(), so that torch allocates no address twice
  std::vector<Memory> memory_;
  std::vector<Node> nodes_;
  std::vector<std::function<bool(const std::vector<Tensor>&)>> guards_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::vector<std::pair<const char*, int64_t>> constants_;
  std::vector<int> results_;
  int64_t held_ = 0;
  bool invalid_ = false;
};

}  // namespace torch_conv
