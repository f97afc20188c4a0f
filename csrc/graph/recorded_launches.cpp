#include "graph/recorded_launches.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>

#include "core/fork_mutex.h"
#include "core/parallel.h"
#include "dispatch/dispatch.h"
#include "tensors/images.h"

namespace torch_conv {

namespace {

constexpr uintptr_t kAlignment = 128;  // no room asks for more
// A window for each of many samples takes more: planning is not what takes the time. Eight shards with two seams each
// stay below.
constexpr size_t kMostSteps = 256;

// What the environment may ask of a call: other steps, and none at all.
constexpr const char* kSteersSteps[] = {"TORCH_CONV_NO_TMA", "TORCH_CONV_NO_PEER", "TORCH_CONV_SIDE_STREAMS"};
constexpr const char* kForbidsSteps[] = {"TORCH_CONV_VARIANT", "TORCH_CONV_NO_STEPS"};

bool any_set(std::span<const char* const> names) {
  return std::any_of(names.begin(), names.end(), [](const char* name) { return *environment(name) != '\0'; });
}

const char* address_of(const Tensor& t) { return static_cast<const char*>(t.data_ptr()); }

std::atomic<int64_t> made_so_far = 0;  // steps, since the process began

// Is an element of `t` at this distance in bytes from its first? Of dense and of strided tensors.
bool has_element_at(const Tensor& t, int64_t bytes) {
  const int64_t size = t.element_size();
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride, size
  for (int64_t i = 0; i < t.dim(); ++i) axes.push_back({t.stride(i), t.size(i)});
  std::sort(axes.rbegin(), axes.rend());
  int64_t rest = bytes / size;
  for (const auto& [stride, count] : axes)
    if (stride > 0) rest -= std::min(rest / stride, count - 1) * stride;
  return bytes % size == 0 && rest == 0;
}

}  // namespace

Signature::Signature(const char* op, Form form, const Call& call) {
  text_.reserve(512), tensors_.reserve(4);
  add(int64_t(reinterpret_cast<uintptr_t>(op))), add(int64_t(form)), add(int64_t(thread_count()));
  add(call.steered);
  if (call.steered)
    for (const char* name : kSteersSteps) add(std::string(environment(name)));
  add(call.slice != nullptr), add(call.part != nullptr), add(call.whole != nullptr);
  if (const Slice* s = call.slice) add(s->dim_from_end), add(s->begin), add(s->size);
  if (const Part* p = call.part)
    add(int64_t(p->axis)), add(p->pad), add(p->out), add(p->first), add(p->whole), add(p->result);
  if (call.whole) add(call.whole->by_torch), add(int64_t(call.whole->way)), add(int64_t(call.whole->sums));
  add(call.out);  // X_out serves no part: the first tensor
}

void Signature::add(const Tensor& t) {
  const char* data = address_of(t);
  int64_t alias = 0;  // one memory for two tensors: it is always the first one's
  while (alias < int64_t(tensors_.size()) && address_of(tensors_[alias]) != data) ++alias;
  const auto sizes = t.sizes(), strides = t.strides();
  add(int64_t(t.scalar_type())), add(t.is_cpu()), add(int64_t(t.get_device_index())), add(alias);
  add(int64_t(reinterpret_cast<uintptr_t>(data) % kAlignment)), add(int64_t(sizes.size()));
  put(sizes.data(), sizes.size() * sizeof(int64_t)), put(strides.data(), strides.size() * sizeof(int64_t));
  tensors_.push_back(t);
}

void Replay::add(const Tensor& t) {
  first.push_back(static_cast<char*>(t.data_ptr()));
  memory.push_back(t);
}

void* Replay::begin(int own, const std::vector<int>& others, bool aside, bool fresh) {
  std::vector<const Tensor*> lenders;
  for (int i : others) lenders.push_back(&tensor(i));
  return streams->begin(tensor(own), lenders, aside, fresh);
}

Tensor Replay::tensor(int i, const Sizes& shape) const {
  return sizes_of(*memory[i]) == shape ? *memory[i] : torch::stable::view(*memory[i], shape);
}

Steps::Steps(const std::vector<Tensor>& given) : number_(++made_so_far), given_(Signature(given).text()) {
  for (const Tensor& t : given) remember(t, -1);
}

void Steps::spoil() {
  spoiled_ = true;
  tensors_.clear(), memory_.clear(), steps_.clear();
}

void Steps::add(Step step) {
  if (spoiled_) return;
  if (steps_.size() == kMostSteps) return spoil();
  steps_.push_back(std::move(step));
}

void Steps::remember(const Tensor& t, int made_by) {
  if (spoiled_) return;
  const bool holds = t.numel() > 0;
  const auto [begin, last] = holds ? memory_of(t) : std::pair<uintptr_t, uintptr_t>{0, 0};
  memory_.push_back(
      {address_of(t), reinterpret_cast<const char*>(begin), reinterpret_cast<const char*>(last), holds, made_by});
  tensors_.push_back(t);
}

void Steps::allocates(const Tensor& made) {
  if (made.numel() == 0) return spoil();
  add({.allocation = Allocation{device_of(made), sizes_of(made), strides_of(made), made.scalar_type()}});
  remember(made, int(steps_.size()) - 1);
}

void Steps::makes(const Tensor& made, std::function<Tensor(Replay&)> again) {
  then([again = std::move(again)](Replay& r) { r.add(again(r)); });
  remember(made, int(steps_.size()) - 1);
}

void Steps::then(std::function<void(Replay&)> step) { add({.act = std::move(step)}); }

void Steps::keep(std::shared_ptr<const void> owner, const void* data, int64_t bytes) {
  constants_.push_back({static_cast<const char*>(data), bytes});
  if (owner) held_ += bytes;
  kept_.push_back(std::move(owner));
}

Slot Steps::find(const void* address) {
  const char* at = static_cast<const char*>(address);
  for (const auto& [data, bytes] : constants_)
    if (at >= data && at < data + bytes) return {-1, int64_t(reinterpret_cast<uintptr_t>(at))};
  std::vector<int> found;
  for (int i = 0; i < int(memory_.size()); ++i)
    if (memory_[i].holds_something && at >= memory_[i].begin && at <= memory_[i].last) found.push_back(i);
  // Shards that are views of one tensor span each other.
  if (found.size() > 1)
    std::erase_if(found, [&](int i) { return !has_element_at(tensors_[i], at - memory_[i].first); });
  const auto elsewhere = [&](int i) { return memory_[i].first != memory_[found[0]].first; };
  if (found.empty() || std::any_of(found.begin(), found.end(), elsewhere)) return spoil(), Slot{-1, 0};
  memory_[found[0]].used_by = int(steps_.size());
  return {found[0], at - memory_[found[0]].first};
}

int Steps::index_of(const Tensor& t) {
  const auto same = [&](const Tensor& known) {
    if (address_of(known) != address_of(t) || known.scalar_type() != t.scalar_type()) return false;
    const bool dense = known.is_contiguous() && t.is_contiguous() && known.numel() == t.numel();
    return dense || (sizes_of(known) == sizes_of(t) && strides_of(known) == strides_of(t));
  };
  const auto found = std::find_if(tensors_.begin(), tensors_.end(), same);
  if (found == tensors_.end()) return spoil(), 0;
  const int i = int(found - tensors_.begin());
  memory_[i].used_by = int(steps_.size());
  return i;
}

std::vector<int> Steps::indices_of(std::initializer_list<const Tensor*> tensors) {
  std::vector<int> indices;
  for (const Tensor* t : tensors)
    if (t) indices.push_back(index_of(*t));
  return indices;
}

bool Steps::finish(const std::vector<Tensor>& results) {
  for (const Tensor& t : results) {
    const Slot slot = t.numel() == 0 ? Slot{-1, 0} : find(address_of(t));
    if (slot.memory < 0 || slot.offset != 0) spoil();
    if (spoiled_) return false;
    results_.push_back(slot.memory);
    const int step = memory_[slot.memory].made_by;
    if (step < 0 || !steps_[step].allocation) continue;
    Allocation& allocation = *steps_[step].allocation;  // a view of what was allocated is allocated as such
    allocation.sizes = sizes_of(t), allocation.strides = strides_of(t);
  }
  for (int i = 0; i < int(memory_.size()); ++i) {
    const Memory& m = memory_[i];
    const bool kept = m.made_by < 0 || std::find(results_.begin(), results_.end(), i) != results_.end();
    if (!kept && m.used_by >= 0 && m.used_by < int(steps_.size())) steps_[m.used_by].last_uses.push_back(i);
  }
  tensors_.clear();
  return true;
}

bool Steps::hold(const std::vector<Tensor>& given) const {
  return std::all_of(guards_.begin(), guards_.end(), [&](const auto& holds) { return holds(given); });
}

std::vector<Tensor> Steps::run(const std::vector<Tensor>& given) const {
  Replay r;
  r.memory.reserve(memory_.size()), r.first.reserve(memory_.size());
  for (const Tensor& t : given) r.add(t);
  for (const Step& step : steps_) {
    if (const auto& a = step.allocation) r.add(empty_strided(a->device, a->sizes, a->strides, a->dtype));
    else step.act(r);
    for (int i : step.last_uses) r.memory[i].reset();
  }
  std::vector<Tensor> results;
  for (int i : results_) results.push_back(*r.memory[i]);
  return results;
}

namespace {

// The steps of calls with one signature: the newest few, for the values of windows that they hold for. None: such a
// call cannot be repeated. Null: there was no such call.
using Known = std::shared_ptr<const std::vector<std::shared_ptr<const Steps>>>;

int64_t bytes_of(const Known& known) {
  int64_t bytes = 0;
  for (const auto& steps : *known) bytes += steps->held();
  return bytes;
}

// Some hundred calls in two generations: what is found in the old one moves to the young one, which becomes the old one
// when it is full, by the number of its calls or by the bytes of windows that they hold.
class StepsCache {
 public:
  Known find(const std::string& signature) {
    const std::lock_guard lock(mutex_);
    if (const auto found = young_.find(signature); found != young_.end()) return found->second;
    const auto found = old_.find(signature);
    if (found == old_.end()) return nullptr;
    const Known known = found->second;  // before the old generation goes
    return put(signature, known);
  }
  // Null: a call that cannot be repeated; those with other values may be.
  void insert(const std::string& signature, std::shared_ptr<const Steps> steps) {
    const std::lock_guard lock(mutex_);
    const auto found = young_.find(signature);
    auto newest = found == young_.end() ? std::vector<std::shared_ptr<const Steps>>{} : *found->second;
    if (steps && steps->held() <= kMostBytes / 4) newest.insert(newest.begin(), std::move(steps));
    if (newest.size() > kMostValues) newest.pop_back();
    put(signature, std::make_shared<const std::vector<std::shared_ptr<const Steps>>>(std::move(newest)));
  }

 private:
  Known put(const std::string& signature, Known known) {
    const int64_t more = bytes_of(known);
    const auto found = young_.find(signature);
    const int64_t less = found == young_.end() ? 0 : bytes_of(found->second);
    const bool full = young_.size() >= kHalf && found == young_.end();
    if (full || bytes_ - less + more > kMostBytes) old_ = std::exchange(young_, {}), bytes_ = more;
    else bytes_ += more - less;
    return young_[signature] = std::move(known);
  }

  static constexpr size_t kHalf = 256, kMostValues = 4;  // as many windows as a pair of derivatives twice
  static constexpr int64_t kMostBytes = 8 << 20;         // of a generation
  ForkMutex mutex_;
  std::unordered_map<std::string, Known> young_, old_;
  int64_t bytes_ = 0;  // of the young ones
};

std::atomic<int64_t> repeated = 0;

StepsCache& steps_cache() {
  static StepsCache& cache = *new StepsCache;  // kernels' contexts may be gone before static objects are
  return cache;
}

// The steps that can be found by their number.
class Numbered {
 public:
  void keep(const std::shared_ptr<const Steps>& steps) {
    const std::lock_guard lock(mutex_);
    if (steps_.contains(steps->number())) return;
    if (steps_.size() >= kMost || bytes_ + steps->held() > kMostBytes) steps_.clear(), bytes_ = 0;
    steps_[steps->number()] = steps;
    bytes_ += steps->held();
  }
  std::shared_ptr<const Steps> find(int64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = steps_.find(number);
    return found == steps_.end() ? nullptr : found->second;
  }
  static Numbered& all() {
    static Numbered& numbered = *new Numbered;  // as the cache
    return numbered;
  }

 private:
  static constexpr size_t kMost = 512;
  static constexpr int64_t kMostBytes = 16 << 20;
  ForkMutex mutex_;
  std::unordered_map<int64_t, std::shared_ptr<const Steps>> steps_;
  int64_t bytes_ = 0;
};

// Those of them that hold for these tensors; null: none do.
std::shared_ptr<const Steps> holding(const Known& known, const std::vector<Tensor>& given) {
  const auto found = std::find_if(known->begin(), known->end(), [&](const auto& steps) { return steps->hold(given); });
  return found == known->end() ? nullptr : *found;
}

// Is no variable set that would change a call's steps or forbid them?
bool environment_is_plain() { return !environment_steers() || !(any_set(kSteersSteps) || any_set(kForbidsSteps)); }

// A caller's `out` may have moved onto the memory of another argument since: the first of the call's tensors.
bool out_is_apart(const Call& call, const std::vector<Tensor>& given) {
  if (!call.out) return true;
  const auto apart = [&](const Tensor& t) { return !overlap(*call.out, t); };
  return std::all_of(given.begin() + 1, given.end(), apart);
}

}  // namespace

bool repeatable(const Call& call, const Tensor& input) {
  const bool lent = call.part && !call.part->shards.empty();  // a step of the call on all shards, if any
  const bool forbidden = call.steered && any_set(kForbidsSteps);
  return call.runs() && (input.is_cuda() || input.is_cpu()) && !lent && !forbidden;
}

int64_t repeated_calls() { return repeated; }

int64_t number_of_steps(const Signature& signature) {
  const auto known = environment_is_plain() ? steps_cache().find(signature.text()) : nullptr;
  const auto steps = known ? holding(known, signature.tensors()) : nullptr;
  if (!steps) return 0;
  Numbered::all().keep(steps);
  return steps->number();
}

std::shared_ptr<const Steps> steps_for(int64_t number, const std::vector<Tensor>& given) {
  auto steps = environment_is_plain() ? Numbered::all().find(number) : nullptr;
  return steps && steps->fit(given) && steps->hold(given) ? steps : nullptr;
}

std::vector<Tensor> run_by_steps(Call& call, const Signature& signature,
                                 const std::function<std::vector<Tensor>()>& first) {
  StepsCache& cache = steps_cache();
  if (const auto known = cache.find(signature.text())) {
    if (known->empty() || !out_is_apart(call, signature.tensors())) return first();
    if (const auto steps = holding(known, signature.tensors())) {
      ++repeated;
      return steps->run(signature.tensors());
    }
  }
  {
    const auto steps = std::make_shared<Steps>(signature.tensors());
    call.steps = steps.get();
    try {
      const std::vector<Tensor> results = first();
      call.steps = nullptr;
      cache.insert(signature.text(), steps->finish(results) ? steps : nullptr);
      return results;
    } catch (const OutOfMemory&) {
      call.steps = nullptr;
    }
  }
  return first();  // once more: steps that are being written down hold all scratch until the end
}

Tensor pretend(const Tensor& like, const Sizes& sizes, const Sizes& strides, ScalarType dtype) {
  // Torch asks which device an address belongs to, so it is one of `like`'s, on a boundary that fresh memory has too.
  constexpr uintptr_t kFresh = 512;
  void* address = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(like.data_ptr()) / kFresh * kFresh);
  return torch::stable::from_blob(address, sizes, strides, like.device(), dtype);
}

Tensor allocate(const Call& call, const Tensor& like, const Sizes& sizes, const Sizes& strides, ScalarType dtype) {
  if (!call.runs()) return pretend(like, sizes, strides, dtype);
  const Tensor made = empty_strided(device_of(like), sizes, strides, dtype);
  if (call.steps) call.steps->allocates(made);
  return made;
}

Tensor allocate(const Call& call, const Tensor& like, const Sizes& sizes, ScalarType dtype) {
  return allocate(call, like, sizes, contiguous_strides(sizes), dtype);
}

Tensor make_of(const Call& call, const Tensor& from, const Tensor& on, const Sizes& sizes, ScalarType dtype,
               std::function<Tensor(const Tensor& from)> make) {
  if (!call.runs()) return pretend(on, sizes, contiguous_strides(sizes), dtype);
  const Tensor made = make(from);
  if (call.steps) {
    const int source = call.steps->index_of(from);
    call.steps->makes(made, [source, shape = sizes_of(from), make = std::move(make)](const Replay& r) {
      return make(r.tensor(source, shape));
    });
  }
  return made;
}

Tensor dense(const Call& call, const Tensor& t) {
  if (t.is_contiguous()) return t;
  return make_of(call, t, t, sizes_of(t), t.scalar_type(),
                 [](const Tensor& t) { return torch::stable::contiguous(t); });
}

}  // namespace torch_conv
