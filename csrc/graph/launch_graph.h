// The launch graph of a call: its allocations, the tensors that torch makes for it, and its launches, in order. A first
// call records the graph. A call with the same signature replays it on its own tensors, without checks, plans or
// look-ups.
//
//   first call     arguments -> checks, problems, plans, kernels -> [allocate, make, launch ...] -> result
//   replay         arguments ------------------------------------> [allocate, make, launch ...] -> result
//
// Problems hold addresses. The graph turns each into a Slot: which of the call's memory it lies in, and the distance
// from the beginning of that memory.
#pragma once

#include <functional>
#include <memory>

#include "graph/signature.h"
#include "sharding/split_streams.h"

namespace torch_conv {

// Where something lies: `offset` bytes from the beginning of the call's tensor `memory`. -1: at the address `offset`.
struct Slot {
  int memory;
  int64_t offset;
};

// One replay: the call's tensors, and behind them the tensors that nodes have made so far.
struct Replay {
  std::vector<std::optional<Tensor>> memory;
  std::vector<char*> first;  // where each begins
  std::optional<SplitStreams> streams;
  std::optional<CurrentStream> side;  // while nodes run on a side stream

  void add(const Tensor& t);
  const Tensor& tensor(int i) const { return *memory[i]; }
  // SplitStreams::begin, of tensors by their numbers.
  void* begin(int own, const std::vector<int>& others, bool aside, bool fresh = false);
  // The same tensor in the shape that a node recorded.
  Tensor tensor(int i, const Sizes& shape) const;
  void* at(const Slot& slot) const {
    return slot.memory < 0 ? reinterpret_cast<void*>(slot.offset) : first[slot.memory] + slot.offset;
  }
};

class LaunchGraph {
 public:
  explicit LaunchGraph(const std::vector<Tensor>& given);

  int64_t number() const { return number_; }  // no other graph has it
  int64_t held() const { return held_; }      // bytes of windows, which live as long as the graph

  // Recorded in the order of the first call: an allocation, a tensor that torch or the host makes, any other action.
  void record_allocation(const Tensor& made);
  void record_tensor(const Tensor& made, std::function<Tensor(Replay&)> again);
  void record(std::function<void(Replay&)> act);
  // Keeps this library's memory, to which problems point, as long as the graph lives.
  void keep(std::shared_ptr<const void> owner, const void* data, int64_t bytes);
  // Where the guard returns false, a call with the same signature is checked and planned anew. The guard holds `bytes`.
  void guard(std::function<bool(const std::vector<Tensor>& given)> holds, int64_t bytes = 0) {
    guards_.push_back(std::move(holds)), held_ += bytes;
  }
  // The call cannot be repeated: drops all nodes.
  void invalidate();

  // Finds the call's memory that holds an address, or that is a tensor (or the same elements in another shape).
  // Invalidates the graph where there is none or more than one.
  Slot find(const void* address);
  int index_of(const Tensor& t);
  std::vector<int> indices_of(std::initializer_list<const Tensor*> tensors);  // but for null

  // Ends the recording. False: the call cannot be repeated. The graph keeps no tensor.
  bool finish(const std::vector<Tensor>& results);
  // Do these tensors have the signature of those of the first call?
  bool fits(const std::vector<Tensor>& given) const { return Signature(given).text() == given_; }
  // Where a guard returns false the graph must not run.
  bool guards_hold(const std::vector<Tensor>& given) const;
  std::vector<Tensor> replay(const std::vector<Tensor>& given) const;

 private:
  struct Memory {
    const char *first, *begin, *last;  // its first element, and the range that it spans, inclusive
    bool holds_something;
    int made_by;       // node; -1: given
    int used_by = -1;  // the last node
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
  void remember(const Tensor& t, int made_by);

  const int64_t number_;
  std::string given_;            // what signatures say of the tensors that were given
  std::vector<Tensor> tensors_;  // until finish(), so that no address is given twice
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
