#include "sharding/split_copies.h"

#include <algorithm>

#include "graph/allocate.h"
#include "graph/launch_graph.h"
#include "runtime/copy.h"
#include "sharding/split_streams.h"

namespace torch_conv {

namespace {

// Up to this number of planes are read in place, which takes no memory. 1024^3 on four NVIDIA H100, us:
//
//     planes on either side     1     2     3      4      5
//     read in place           802   900   953   1009   1167
//     copied                  806   906   959    976   1111
//
constexpr int64_t kMostReadInPlace = 3;

// The rows of a tensor in memory: `count` blocks of dense rows. The dimensions inside and outside of `dim` must be
// dense.
struct RowMemory {
  int64_t row, pitch, count;  // elements of a row, between blocks; blocks
  std::vector<size_t> order;  // the other dimensions, innermost first
};

std::optional<RowMemory> memory_of_rows(const Sizes& size, const Sizes& stride, int64_t dim) {
  RowMemory rows{1, 0, 1, {}};
  for (size_t i = 0; i < size.size(); ++i)
    if (int64_t(i) != dim && size[i] > 1) rows.order.push_back(i);
  std::sort(rows.order.begin(), rows.order.end(), [&](size_t a, size_t b) { return stride[a] < stride[b]; });
  size_t i = 0;
  for (; i < rows.order.size() && stride[rows.order[i]] == rows.row; ++i) rows.row *= size[rows.order[i]];
  if (size[dim] > 1 && stride[dim] != rows.row) return std::nullopt;
  for (; i < rows.order.size(); ++i) {
    const int64_t step = stride[rows.order[i]];
    if (rows.count == 1) rows.pitch = step;
    else if (step != rows.pitch * rows.count) return std::nullopt;
    rows.count *= size[rows.order[i]];
  }
  if (rows.count > 1 && rows.pitch < size[dim] * rows.row) return std::nullopt;  // an expanded tensor
  return rows;
}

std::optional<RowMemory> memory_of_rows(const Tensor& t, int64_t dim) {
  return memory_of_rows(sizes_of(t), strides_of(t), dim);
}

// Rows of a tensor, from `first` on.
struct RowsAt {
  int device;
  void* data;
  int64_t first;
  std::optional<RowMemory> memory;
};

std::optional<cuda::BlockCopy> blocks_between(const RowsAt& to, const RowsAt& from, int64_t count, int64_t bytes) {
  if (!to.memory || !from.memory || to.memory->row != from.memory->row || to.memory->order != from.memory->order)
    return std::nullopt;
  const auto blocks = [&](const RowsAt& r) {
    return cuda::RowBlocks{r.device, static_cast<char*>(r.data) + r.first * r.memory->row * bytes,
                           r.memory->pitch * bytes};
  };
  return cuda::BlockCopy{blocks(to), blocks(from), count * to.memory->row * bytes, to.memory->count};
}

RowsAt rows_of(const Tensor& t, int64_t first, int64_t dim) {
  return {t.get_device_index(), t.data_ptr(), first, memory_of_rows(t, dim)};
}

}  // namespace

std::optional<cuda::BlockCopy> dense_blocks_of(void* to, const Tensor& from, int64_t first, int64_t count,
                                               int64_t dim) {
  Sizes sizes = sizes_of(from);
  sizes[dim] = count;
  const auto dense = memory_of_rows(sizes, contiguous_strides(sizes), dim);
  return blocks_between({from.get_device_index(), to, 0, dense}, rows_of(from, first, dim), count, from.element_size());
}

namespace {

void* stream_of(const cuda::BlockCopy& copy) { return cuda::current_stream(copy.to.device); }

std::optional<cuda::BlockCopy> blocks_of(const RowCopy& c) {
  if (!c.to.is_cuda()) return std::nullopt;
  return blocks_between(rows_of(c.to, c.at, c.dim), rows_of(c.from, c.first, c.dim), c.count, c.to.element_size());
}

void copy_rows(const RowCopy& c) {
  if (const auto blocks = blocks_of(c)) return cuda::copy_by_engine(*blocks, stream_of(*blocks));
  Tensor part = narrow(c.to, c.dim, c.at, c.count);
  torch::stable::copy_(part, narrow(c.from, c.dim, c.first, c.count));
}

// Copies and records one RowCopy.
void run_copy(const Call& call, const RowCopy& c) {
  if (!call.runs()) return;
  copy_rows(c);
  if (!call.graph) return;
  call.graph->record([at = c.at, first = c.first, count = c.count, dim = c.dim, to = call.graph->index_of(c.to),
                      from = call.graph->index_of(c.from), to_shape = sizes_of(c.to),
                      from_shape = sizes_of(c.from)](Replay& r) {
    copy_rows({r.tensor(to, to_shape), r.tensor(from, from_shape), at, first, count, dim});
  });
}

}  // namespace

void RowCopies::add(const RowCopy& copy) {
  if (copy.count > 0 && copy.to.numel() > 0) copies_.push_back(copy);
}

void RowCopies::run(const Call& call) const {
  if (!call.loads()) return;
  std::vector<cuda::BlockCopy> read;
  std::vector<const RowCopy*> by_kernel;
  for (const RowCopy& copy : copies_) {
    const auto blocks = blocks_of(copy);
    if (blocks && can_read(copy.to, copy.from)) read.push_back(*blocks), by_kernel.push_back(&copy);
    else run_copy(call, copy);
  }
  if (read.empty()) return;
  const cuda::CopyKernel kernel = cuda::copy_kernel(read);
  if (!kernel.kernel) {
    for (const RowCopy* copy : by_kernel) run_copy(call, *copy);
    return;
  }
  if (!call.runs()) return;
  cuda::copy_by_kernel(kernel, read, stream_of(read[0]));
  if (!call.graph) return;
  std::vector<int> owners;  // tensors of other devices; not every allocator opens its memory to peers
  std::vector<std::pair<Slot, Slot>> slots;
  for (size_t i = 0; i < read.size(); ++i) {
    slots.push_back({call.graph->find(read[i].to.data), call.graph->find(read[i].from.data)});
    const int owner = call.graph->index_of(by_kernel[i]->from);
    if (read[i].from.device != read[i].to.device && std::find(owners.begin(), owners.end(), owner) == owners.end())
      owners.push_back(owner);
  }
  call.graph->guard([owners, here = read[0].to.device](const std::vector<Tensor>& given) {
    return std::all_of(owners.begin(), owners.end(), [&](int i) { return can_read(here, given[i]); });
  });
  call.graph->record([kernel, read, slots](Replay& r) {
    std::vector<cuda::BlockCopy> copies = read;
    for (size_t i = 0; i < copies.size(); ++i)
      copies[i].to.data = r.at(slots[i].first), copies[i].from.data = r.at(slots[i].second);
    cuda::copy_by_kernel(kernel, copies, stream_of(copies[0]));
  });
}

Tensor copy_of(const Tensor& source, Device device) {
  const Sizes sizes = sizes_of(source);
  const Tensor to = empty_strided(device, sizes, contiguous_strides(sizes), source.scalar_type());
  const int64_t bytes = source.numel() * int64_t(source.element_size());
  const cuda::BlockCopy copy{
      {device.index, to.data_ptr(), bytes}, {source.get_device_index(), source.data_ptr(), bytes}, bytes, 1};
  const std::span one(&copy, 1);
  const cuda::CopyKernel kernel = can_read(to, source) ? cuda::copy_kernel(one) : cuda::CopyKernel{};
  if (kernel.kernel) cuda::copy_by_kernel(kernel, one, stream_of(copy));
  else cuda::copy_by_engine(copy, stream_of(copy));
  return to;
}

NearPlanes::NearPlanes(const Shard& shard) : far_(shard), near_(shard), dim_(shard.input->dim() - kAxes) {
  if (is_far(*shard.input, shard.above) && shard.before > kMostReadInPlace)
    above_ = {shard.above->size(dim_) - shard.before, shard.before};
  if (is_far(*shard.input, shard.below) && shard.behind > kMostReadInPlace) below_ = {0, shard.behind};
}

void NearPlanes::allocate_copy(const Call& call, const Tensor*& peers, Planes& planes, RowCopies& copies) const {
  if (planes.count == 0) return;
  Sizes sizes = sizes_of(*peers);
  sizes[dim_] = planes.count;
  planes.copy = allocate(call, *far_.input, sizes, peers->scalar_type());
  copies.add({planes.copy, *peers, 0, planes.first, planes.count, dim_});
  peers = &planes.copy;
}

void NearPlanes::copy(const Call& call, void* side_stream, bool after_queued) {
  // The copies are memory of the side stream, because the current stream may still read memory that it has freed.
  const CurrentStream side(*far_.input, side_stream);
  if (LaunchGraph* graph = call.graph)
    record_side_stream(*graph, graph->index_of(*far_.input), graph->indices_of({far_.above, far_.below}), after_queued);
  RowCopies copies;
  try {
    allocate_copy(call, near_.above, above_, copies);
    allocate_copy(call, near_.below, below_, copies);
  } catch (const OutOfMemory&) {  // kernels read the planes in place
    near_.above = far_.above, near_.below = far_.below;
    if (call.graph) call.graph->invalidate();
    return;
  }
  copies.run(call);
  if (call.graph) call.graph->record([](Replay& r) { r.on_shards->side.reset(); });
}

}  // namespace torch_conv
