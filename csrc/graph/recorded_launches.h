// The steps of a call: what it allocates, has torch make, and launches, in order. They are written down while a call
// runs for the first time; a call with the same signature runs them on its own tensors, and checks, plans and looks up
// nothing.
//
//   first call     arguments -> checks, problems, plans, kernels -> [allocate, make, launch ...] -> result
//   same again     arguments ------------------------------------> [allocate, make, launch ...] -> result
//
// Problems hold addresses. Written down, each becomes a Slot: which of the call's memory it lies in, and how far from
// its beginning.
#pragma once

#include <functional>
#include <memory>

#include "sharding/split_streams.h"
#include "tensors/call.h"

namespace torch_conv {

// All that decides which steps a call takes: the operator and its form, its options, and of its tensors everything but
// the values; of memory that is its alignment. (Where values decide too, the steps have a guard. Plans that know taps
// by heart know those of named derivatives, which the options say.)
class Signature {
 public:
  enum class Form : int8_t { whole, shards };

  Signature(const char* op, Form form, const Call& call);
  explicit Signature(const std::vector<Tensor>& tensors) { add(tensors); }  // of these alone

  void add(const Tensor& t);
  void add(const std::string& words) { add(int64_t(words.size())), text_ += words; }
  void add(double number) { put(&number, sizeof(number)); }
  void add(int64_t number) { put(&number, sizeof(number)); }
  void add(bool flag) { add(int64_t(flag)); }
  void add(ScalarType type) { add(int64_t(type)); }
  template <typename T>
  void add(const std::vector<T>& values) {
    add(int64_t(values.size()));
    for (const T& value : values) add(value);
  }
  template <typename T>
  void add(const std::optional<T>& value) {
    add(value.has_value());
    if (value) add(*value);
  }

  const std::string& text() const { return text_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  void put(const void* bytes, size_t count) { text_.append(static_cast<const char*>(bytes), count); }

  std::string text_;
  std::vector<Tensor> tensors_;
};

// Where something lies: `offset` bytes from the beginning of the call's tensor `memory`. -1: at the address `offset`.
struct Slot {
  int memory;
  int64_t offset;
};

// One run of steps: the call's tensors, and behind them what the steps have made so far.
struct Replay {
  std::vector<std::optional<Tensor>> memory;
  std::vector<char*> first;  // where each begins
  std::optional<SplitStreams> streams;
  std::optional<CurrentStream> side;  // while steps are made beside the current stream

  void add(const Tensor& t);
  const Tensor& tensor(int i) const { return *memory[i]; }
  // SplitStreams::begin, of tensors by their numbers.
  void* begin(int own, const std::vector<int>& others, bool aside, bool fresh = false);
  // ... in the shape that a step knows it in.
  Tensor tensor(int i, const Sizes& shape) const;
  void* at(const Slot& slot) const {
    return slot.memory < 0 ? reinterpret_cast<void*>(slot.offset) : first[slot.memory] + slot.offset;
  }
};

class Steps {
 public:
  explicit Steps(const std::vector<Tensor>& given);

  int64_t number() const { return number_; }  // no other steps have it
  int64_t held() const { return held_; }      // bytes of windows, which live as long as these steps

  // Written down, in the order in which the first call does it:
  void allocates(const Tensor& made);
  void makes(const Tensor& made, std::function<Tensor(Replay&)> again);
  void then(std::function<void(Replay&)> step);
  // Memory of ours that problems point to lives as long as these steps.
  void keep(std::shared_ptr<const void> owner, const void* data, int64_t bytes);
  // Where it says no, a call with the same signature is checked and planned anew. `bytes` are those that it holds.
  void guard(std::function<bool(const std::vector<Tensor>& given)> holds, int64_t bytes = 0) {
    guards_.push_back(std::move(holds)), held_ += bytes;
  }
  // This call cannot be repeated by its steps: they are dropped.
  void spoil();

  // Which of the call's memory holds an address, or is a tensor (or the same elements in another shape). Where that is
  // none, or not clear, the steps are spoiled.
  Slot find(const void* address);
  int index_of(const Tensor& t);
  std::vector<int> indices_of(std::initializer_list<const Tensor*> tensors);  // but for null

  // The call has returned. False: it cannot be repeated. The steps keep no tensor.
  bool finish(const std::vector<Tensor>& results);
  // Are these tensors like those of the first call, in all that its signature says of them?
  bool fit(const std::vector<Tensor>& given) const { return Signature(given).text() == given_; }
  // Where a guard says no the steps must not run.
  bool hold(const std::vector<Tensor>& given) const;
  std::vector<Tensor> run(const std::vector<Tensor>& given) const;

 private:
  struct Memory {
    const char *first, *begin, *last;  // its first element, and the range that it spans, inclusive
    bool holds_something;
    int made_by;       // step; -1: given
    int used_by = -1;  // the last step
  };
  struct Allocation {
    Device device;
    Sizes sizes, strides;
    ScalarType dtype;
  };
  struct Step {  // allocates, or acts
    std::optional<Allocation> allocation{};
    std::function<void(Replay&)> act{};
    std::vector<int> last_uses{};  // memory that no later step uses
  };

  void add(Step step);
  void remember(const Tensor& t, int made_by);

  const int64_t number_;
  std::string given_;            // what signatures say of the tensors that were given
  std::vector<Tensor> tensors_;  // until finish(), so that no address is given twice
  std::vector<Memory> memory_;
  std::vector<Step> steps_;
  std::vector<std::function<bool(const std::vector<Tensor>&)>> guards_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::vector<std::pair<const char*, int64_t>> constants_;
  std::vector<int> results_;
  int64_t held_ = 0;
  bool spoiled_ = false;
};

// May a call be repeated by steps at all? Not where the environment asks for a variant, or for no steps.
bool repeatable(const Call& call, const Tensor& input);
// The call by steps that an earlier one wrote down, or `first`, which writes them down.
std::vector<Tensor> run_by_steps(Call& call, const Signature& signature,
                                 const std::function<std::vector<Tensor>()>& first);

// How many calls were repeated by their steps, since the process began.
int64_t repeated_calls();

// A number for the steps of an earlier call with this signature, by which they can be run without such a call; 0 where
// there are none. It is forgotten when many others have been given.
int64_t number_of_steps(const Signature& signature);
// The steps of a number, where they fit these tensors and the environment asks for nothing else; null: make the call.
std::shared_ptr<const Steps> steps_for(int64_t number, const std::vector<Tensor>& given);

// Fresh memory for a call's result or its scratch. A call that only asks gets a tensor that nobody may read or write.
Tensor allocate(const Call& call, const Tensor& like, const Sizes& sizes, const Sizes& strides, ScalarType dtype);
Tensor allocate(const Call& call, const Tensor& like, const Sizes& sizes, ScalarType dtype);  // contiguous
Tensor pretend(const Tensor& like, const Sizes& sizes, const Sizes& strides, ScalarType dtype);
// What torch or the host makes of another tensor, with these sizes on the device of `on`. `make` holds nothing of this
// call but numbers. A call that only asks does not run it.
Tensor make_of(const Call& call, const Tensor& from, const Tensor& on, const Sizes& sizes, ScalarType dtype,
               std::function<Tensor(const Tensor& from)> make);
// A tensor as kernels read it that take no strides: itself, or a contiguous copy.
Tensor dense(const Call& call, const Tensor& t);

}  // namespace torch_conv
