#include "ops/steps.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "core/parallel.h"
#include "ops/images.h"
#include "ops/rooms.h"

namespace torch_conv {

namespace {

constexpr uintptr_t kAlignment = 128;  // no room asks for more
constexpr int64_t kTapsByHeart = 3;

const char* address_of(const Tensor& t) { return static_cast<const char*>(t.data_ptr()); }

}  // namespace

Signature::Signature(const char* op, const Call& call) {
  text_.reserve(512);
  add(int64_t(reinterpret_cast<uintptr_t>(op))), add(int64_t(thread_count()));
  add(std::string(environment("TORCH_CONV_NO_TMA")));
  add(std::string(environment("TORCH_CONV_NO_PEER"))), add(std::string(environment("TORCH_CONV_SIDE_STREAMS")));
  if (const Slice* s = call.slice) add(s->dim_from_end), add(s->begin), add(s->size);
  if (const Part* p = call.part) add(int64_t(p->axis)), add(p->pad), add(p->out), add(p->result);
  if (call.whole) add(call.whole->by_torch);
  add(call.out);  // X_out serves no part: the first tensor
}

void Signature::add(const Tensor& t) {
  const char* data = address_of(t);
  int64_t alias = 0;  // one memory for two tensors: it is always the first one's
  while (alias < int64_t(tensors_.size()) && address_of(tensors_[alias]) != data) ++alias;
  const bool host = t.is_cpu();
  const auto sizes = t.sizes(), strides = t.strides();
  add(int64_t(t.scalar_type())), add(host), add(int64_t(t.get_device_index())), add(alias);
  add(int64_t(reinterpret_cast<uintptr_t>(data) % kAlignment)), add(int64_t(sizes.size()));
  put(sizes.data(), sizes.size() * sizeof(int64_t)), put(strides.data(), strides.size() * sizeof(int64_t));
  if (host && t.numel() <= kTapsByHeart && t.is_contiguous()) put(data, t.numel() * t.element_size());
  tensors_.push_back(t);
}

void Replay::add(const Tensor& t) {
  first.push_back(static_cast<char*>(t.data_ptr()));
  memory.push_back(t);
}

Steps::Steps(const std::vector<Tensor>& given) : given_(given.size()) {
  for (const Tensor& t : given) remember(t);
}

void Steps::remember(const Tensor& t) {
  const char* first = address_of(t);
  const bool holds = t.numel() > 0;
  const auto [begin, last] = holds ? memory_of(t) : std::pair<uintptr_t, uintptr_t>{0, 0};
  memory_.push_back({reinterpret_cast<const char*>(begin), first, reinterpret_cast<const char*>(last), holds});
  used_by_.push_back(-1);
  tensors_.push_back(t);
}

void Steps::allocates(const Tensor& made) {
  if (made.numel() == 0) return spoil();
  allocated_.push_back({int(memory_.size()), int(allocations_.size())});
  steps_.push_back({.allocation = int(allocations_.size())});
  allocations_.push_back({device_of(made), sizes_of(made), strides_of(made), made.scalar_type()});
  remember(made);
}

void Steps::makes(const Tensor& made, std::function<Tensor(const Replay&)> again) {
  then([again = std::move(again)](Replay& r) { r.add(again(r)); });
  remember(made);
}

void Steps::then(std::function<void(Replay&)> step) { steps_.push_back({.act = std::move(step)}); }

void Steps::keep(std::shared_ptr<const void> owner, const void* data, int64_t bytes) {
  constants_.push_back({static_cast<const char*>(data), bytes});
  kept_.push_back(std::move(owner));
}

Slot Steps::find(const void* address) {
  const char* at = static_cast<const char*>(address);
  for (const auto& [data, bytes] : constants_)
    if (at >= data && at < data + bytes) return {-1, int64_t(reinterpret_cast<uintptr_t>(at))};
  int found = -1;
  for (int i = 0; i < int(memory_.size()); ++i) {
    if (!memory_[i].known || at < memory_[i].begin || at > memory_[i].last) continue;
    if (found >= 0 && memory_[found].first != memory_[i].first) spoil();  // tensors that overlap
    if (found < 0) found = i;
  }
  if (found < 0) return spoil(), Slot{-1, 0};
  used_by_[found] = int(steps_.size());
  return {found, at - memory_[found].first};
}

int Steps::index_of(const Tensor& t) {
  const Slot slot = find(address_of(t));
  if (slot.memory < 0 || slot.offset != 0) return spoil(), 0;
  const Tensor& known = tensors_[slot.memory];
  if (sizes_of(known) != sizes_of(t) || strides_of(known) != strides_of(t)) spoil();
  return slot.memory;
}

bool Steps::finish(const std::vector<Tensor>& results) {
  for (const Tensor& t : results) {
    if (t.numel() == 0) spoil();
    if (spoiled_) break;
    const Slot slot = find(address_of(t));
    if (slot.memory < 0 || slot.offset != 0) spoil();
    results_.push_back(slot.memory);
    for (const auto& [memory, allocation] : allocated_)  // a view of what was allocated is allocated as such
      if (memory == slot.memory)
        allocations_[allocation].sizes = sizes_of(t), allocations_[allocation].strides = strides_of(t);
  }
  for (size_t i = given_; i < memory_.size(); ++i) {
    const bool kept = std::find(results_.begin(), results_.end(), int(i)) != results_.end();
    if (!kept && used_by_[i] >= 0 && used_by_[i] < int(steps_.size())) steps_[used_by_[i]].last_uses.push_back(int(i));
  }
  tensors_.clear();
  return !spoiled_;
}

std::optional<std::vector<Tensor>> Steps::run(const std::vector<Tensor>& given) const {
  for (const auto& holds : guards_)
    if (!holds(given)) return std::nullopt;
  Replay r;
  r.memory.reserve(memory_.size()), r.first.reserve(memory_.size());
  for (const Tensor& t : given) r.add(t);
  for (const Step& step : steps_) {
    if (step.allocation >= 0) {
      const Allocation& a = allocations_[step.allocation];
      r.add(empty_strided(a.device, a.sizes, a.strides, a.dtype));
    } else {
      step.act(r);
    }
    for (int i : step.last_uses) r.memory[i].reset();
  }
  std::vector<Tensor> results;
  for (int i : results_) results.push_back(*r.memory[i]);
  return results;
}

namespace {

// Some hundred calls; when it is full some other one goes. Null: a call that cannot be repeated.
class StepsCache {
 public:
  std::optional<std::shared_ptr<const Steps>> find(const std::string& signature) {
    const std::lock_guard lock(mutex_);
    const auto found = steps_.find(signature);
    if (found == steps_.end()) return std::nullopt;
    return found->second;
  }
  void keep(const std::string& signature, std::shared_ptr<const Steps> steps) {
    const std::lock_guard lock(mutex_);
    if (steps_.size() >= kMost) steps_.erase(steps_.begin());
    steps_[signature] = std::move(steps);
  }

 private:
  static constexpr size_t kMost = 512;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Steps>> steps_;
};

}  // namespace

namespace {

// A caller's `out` may have moved onto the memory of another argument since: the first of the call's tensors.
bool out_is_apart(const Call& call, const std::vector<Tensor>& given) {
  if (!call.out) return true;
  const auto apart = [&](const Tensor& t) { return !overlap(*call.out, t); };
  return std::all_of(given.begin() + 1, given.end(), apart);
}

}  // namespace

bool repeatable(const Call& call, const Tensor& input) {
  const bool lent = call.part && !call.part->shards.empty();  // a step of the call on all shards, if any
  return call.runs() && (input.is_cuda() || input.is_cpu()) && !lent && *environment("TORCH_CONV_VARIANT") == 0 &&
         *environment("TORCH_CONV_NO_STEPS") == 0;
}

std::vector<Tensor> run_by_steps(Call& call, const Signature& signature,
                                 const std::function<std::vector<Tensor>()>& first) {
  static StepsCache& cache = *new StepsCache;  // kernels' contexts may be gone before static objects are
  if (const auto known = cache.find(signature.text())) {
    if (!*known || !out_is_apart(call, signature.tensors())) return first();
    if (auto results = (*known)->run(signature.tensors())) return std::move(*results);
    return first();
  }
  const auto steps = std::make_shared<Steps>(signature.tensors());
  call.steps = steps.get();
  const std::vector<Tensor> results = first();
  call.steps = nullptr;
  cache.keep(signature.text(), steps->finish(results) ? steps : nullptr);
  return results;
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
    call.steps->makes(made, [source, make = std::move(make)](const Replay& r) { return make(r.tensor(source)); });
  }
  return made;
}

}  // namespace torch_conv
