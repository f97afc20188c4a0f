#include "graph/launch_graph.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "tensors/images.h"

namespace torch_conv {

namespace {

// Eight shards with two boundary strips each need fewer nodes. Calls with a window for each of many samples need more,
// and planning is a small part of their time.
constexpr size_t kMostNodes = 256;

std::atomic<int64_t> graphs_created = 0;  // graphs, since the process began

// Whether there is an element of `t`, which may be strided, at this distance in bytes from the first element.
bool has_element_at(const Tensor& t, int64_t bytes) {
  const int64_t size = t.element_size();
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride, size
  for (int64_t i = 0; i < t.dim(); ++i) axes.push_back({t.stride(i), t.size(i)});
  std::sort(axes.rbegin(), axes.rend());
  int64_t remaining = bytes / size;
  for (const auto& [stride, count] : axes)
    if (stride > 0) remaining -= std::min(remaining / stride, count - 1) * stride;
  return bytes % size == 0 && remaining == 0;
}

}  // namespace

void Replay::add(const Tensor& t) {
  first.push_back(static_cast<char*>(t.data_ptr()));
  memory.push_back(t);
}

Tensor Replay::tensor(int i, const Sizes& shape) const {
  return sizes_of(*memory[i]) == shape ? *memory[i] : torch::stable::view(*memory[i], shape);
}

LaunchGraph::LaunchGraph(const std::vector<Tensor>& given)
    : number_(++graphs_created), given_(Signature(given).text()) {
  for (const Tensor& t : given) remember(t, -1);
}

void LaunchGraph::invalidate() {
  invalid_ = true;
  tensors_.clear(), memory_.clear(), nodes_.clear();
}

void LaunchGraph::add(Node node) {
  if (invalid_) return;
  if (nodes_.size() == kMostNodes) return invalidate();
  nodes_.push_back(std::move(node));
}

void LaunchGraph::remember(const Tensor& t, int producer) {
  if (invalid_) return;
  const bool holds = t.numel() > 0;
  const auto [begin, last] = holds ? memory_of(t) : std::pair<uintptr_t, uintptr_t>{0, 0};
  memory_.push_back(
      {address_of(t), reinterpret_cast<const char*>(begin), reinterpret_cast<const char*>(last), holds, producer});
  tensors_.push_back(t);
}

void LaunchGraph::record_allocation(const Tensor& tensor) {
  if (tensor.numel() == 0) return invalidate();
  add({.allocation = Allocation{device_of(tensor), sizes_of(tensor), strides_of(tensor), tensor.scalar_type()}});
  remember(tensor, int(nodes_.size()) - 1);
}

void LaunchGraph::record_tensor(const Tensor& tensor, std::function<Tensor(Replay&)> again) {
  record([again = std::move(again)](Replay& r) { r.add(again(r)); });
  remember(tensor, int(nodes_.size()) - 1);
}

void LaunchGraph::record(std::function<void(Replay&)> act) { add({.act = std::move(act)}); }

void LaunchGraph::keep(std::shared_ptr<const void> owner, const void* data, int64_t bytes) {
  constants_.push_back({static_cast<const char*>(data), bytes});
  if (owner) held_ += bytes;
  kept_.push_back(std::move(owner));
}

Slot LaunchGraph::find(const void* address) {
  const char* at = static_cast<const char*>(address);
  for (const auto& [data, bytes] : constants_)
    if (at >= data && at < data + bytes) return {-1, int64_t(reinterpret_cast<uintptr_t>(at))};
  std::vector<int> found;
  for (int i = 0; i < int(memory_.size()); ++i)
    if (memory_[i].has_elements && at >= memory_[i].begin && at <= memory_[i].last) found.push_back(i);
  // The spans of shards overlap, if the shards are views of one tensor.
  if (found.size() > 1)
    std::erase_if(found, [&](int i) { return !has_element_at(tensors_[i], at - memory_[i].first); });
  const auto elsewhere = [&](int i) { return memory_[i].first != memory_[found[0]].first; };
  if (found.empty() || std::any_of(found.begin(), found.end(), elsewhere)) return invalidate(), Slot{-1, 0};
  memory_[found[0]].last_user = int(nodes_.size());
  return {found[0], at - memory_[found[0]].first};
}

int LaunchGraph::index_of(const Tensor& t) {
  const auto same = [&](const Tensor& known) {
    if (address_of(known) != address_of(t) || known.scalar_type() != t.scalar_type()) return false;
    const bool dense = known.is_contiguous() && t.is_contiguous() && known.numel() == t.numel();
    return dense || (sizes_of(known) == sizes_of(t) && strides_of(known) == strides_of(t));
  };
  const auto found = std::find_if(tensors_.begin(), tensors_.end(), same);
  if (found == tensors_.end()) return invalidate(), 0;
  const int i = int(found - tensors_.begin());
  memory_[i].last_user = int(nodes_.size());
  return i;
}

std::vector<int> LaunchGraph::indices_of(std::initializer_list<const Tensor*> tensors) {
  std::vector<int> indices;
  for (const Tensor* t : tensors)
    if (t) indices.push_back(index_of(*t));
  return indices;
}

bool LaunchGraph::finish(const std::vector<Tensor>& results) {
  if (invalid_) return false;
  for (const Tensor& t : results) {
    const Slot slot = t.numel() == 0 ? Slot{-1, 0} : find(address_of(t));
    if (slot.memory < 0 || slot.offset != 0) invalidate();
    if (invalid_) return false;
    results_.push_back(slot.memory);
    const int node = memory_[slot.memory].producer;
    if (node < 0 || !nodes_[node].allocation) continue;
    Allocation& allocation = *nodes_[node].allocation;  // a result may be a view of the recorded allocation
    allocation.sizes = sizes_of(t), allocation.strides = strides_of(t);
  }
  for (int i = 0; i < int(memory_.size()); ++i) {
    const Memory& m = memory_[i];
    const bool kept = m.producer < 0 || std::find(results_.begin(), results_.end(), i) != results_.end();
    if (!kept && m.last_user >= 0 && m.last_user < int(nodes_.size())) nodes_[m.last_user].last_uses.push_back(i);
  }
  tensors_.clear();
  return true;
}

bool LaunchGraph::guards_hold(const std::vector<Tensor>& given) const {
  return std::all_of(guards_.begin(), guards_.end(), [&](const auto& holds) { return holds(given); });
}

std::vector<Tensor> LaunchGraph::replay(const std::vector<Tensor>& given) const {
  Replay r;
  r.memory.reserve(memory_.size()), r.first.reserve(memory_.size());
  for (const Tensor& t : given) r.add(t);
  for (const Node& node : nodes_) {
    if (const auto& a = node.allocation) r.add(empty_strided(a->device, a->sizes, a->strides, a->dtype));
    else node.act(r);
    for (int i : node.last_uses) r.memory[i].reset();
  }
  std::vector<Tensor> results;
  for (int i : results_) results.push_back(*r.memory[i]);
  return results;
}

}  // namespace torch_conv
