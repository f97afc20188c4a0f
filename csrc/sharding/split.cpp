#include "sharding/split.h"

#include <numeric>

#include "graph/allocate.h"
#include "graph/launch_graph.h"
#include "sharding/spatial_layout.h"
#include "sharding/split_streams.h"
#include "tensors/images.h"

namespace torch_conv {

namespace {

ShardedImage image_of(const char* op, const std::vector<Tensor>& shards, int64_t dim) {
  check(!shards.empty(), op, "shards must hold at least one tensor");
  const Tensor& first = shards[0];
  const int64_t dims = first.dim();
  check(dim >= -dims && dim < dims, op, "dim must be one of the shards' ", dims, " dimensions, got ", dim);
  ShardedImage image{{}, dim < 0 ? dim + dims : dim, {0}};
  const Sizes expected = sizes_of(first);
  for (const Tensor& t : shards) {
    const Sizes sizes = sizes_of(t);
    bool same = sizes.size() == expected.size();
    for (size_t d = 0; same && d < sizes.size(); ++d) same = int64_t(d) == image.dim || sizes[d] == expected[d];
    if (!same)
      refuse(op, "shards must have the same shape but for dimension ", image.dim, ", got ", shape_text(expected),
             " and ", shape_text(sizes));
    if (t.scalar_type() != first.scalar_type())
      refuse(op, "shards must have the same dtype, got ", dtype_text(first.scalar_type()), " and ",
             dtype_text(t.scalar_type()));
    if (t.is_cuda() != first.is_cuda() || t.is_cpu() != first.is_cpu())
      refuse(op, "shards must all be on the CPU or all on CUDA devices, got ", device_text(first), " and ",
             device_text(t));
    image.shards.push_back(t);
    image.bounds.push_back(image.bounds.back() + t.size(image.dim));
  }
  return image;
}

// A tensor like shard i with the sizes of the whole image, for a call that asks for its footprint. It has no memory of
// its own.
Tensor placeholder_of(const ShardedImage& image, size_t i) {
  const Tensor& like = image.shards[i];
  Sizes sizes = sizes_of(like);
  sizes[image.dim] = image.size();
  // A stride for every dimension, so that leading ones merge as they do in the shard.
  return placeholder(like, sizes, strides_of(like), like.scalar_type());
}

// A call on shards along batch or channels: no shard reads another one.
std::vector<Tensor> run_slices(const Call& call, const ShardedImage& image, const Sizes& wanted,
                               const Footprint& footprint, const ShardCall& function) {
  SplitStreams streams(call, image.shards, wanted.size() > 1);
  record_streams(call, image.shards, wanted.size() > 1);
  std::vector<Tensor> results;
  for (int64_t i : wanted) {
    const Range rows = image.rows_of(i);
    if (rows.size() == 0) {
      Sizes sizes = footprint.result;
      sizes[image.dim] = 0;
      results.push_back(allocate(call, image.shards[i], sizes, footprint.dtype));
      continue;
    }
    const Slice slice{image.from_end(), rows.begin, rows.size()};
    OnShards shards{.slice = &slice, .whole_footprint = &footprint, .streams = &streams};
    Call slice_call = call_on(call, shards);
    results.push_back(function(slice_call, image.shards[i]));
  }
  streams.finish();
  record_finish(call);
  return results;
}

// Bytes of a window that kernels read in another GPU's memory; every block reads the window. Two NVIDIA H100 with
// NVLink, us a call on their shards, the window copied | read in place:
//     3x3 float32 of 4096²     49.0 | 32.8     15x15 of 8192² (900 bytes)                  302 | 309
//     3x3 of 8192²            103.5 | 103.5    3x3 for each of 64 channels of 2048x1024    193 | 199   (2304 bytes)
//       in a CUDA graph        99.7 | 97.3     7x7 for each of 64 channels of 2048x1024    211 | 215
//     3x3x3 of 512³             233 | 230
// A copy costs the host 11 us for each further GPU. Not measured: between 36 and 900 bytes, more GPUs, GPUs without
// NVLink.
constexpr int64_t kMostReadFromPeer = 512;

bool on_another_gpu(const Tensor& input, const Tensor& window) {
  return input.is_cuda() && window.is_cuda() && !same_device(input, window);
}

}  // namespace

std::vector<Tensor> run_split(const Call& call, int axes, const std::vector<Tensor>& shards, int64_t dim,
                              const std::optional<Sizes>& wanted, const ShardCall& function) {
  const char* op = call.op;
  ShardedImage image = image_of(op, shards, dim);
  Sizes indices(shards.size());
  std::iota(indices.begin(), indices.end(), 0);
  if (wanted) {
    indices = *wanted;
    for (int64_t i : indices)
      check(i >= 0 && i < int64_t(shards.size()), op, "wanted must name shards 0 to ", shards.size() - 1, ", got ", i);
  }
  for (int64_t i : indices) {  // the leading dimensions must merge here and in `placeholder_of`
    Tensor& t = image.shards[i];
    if (dtype_or_none(t.scalar_type()) && t.dim() >= axes && !merge_leading(t, Dtype::f32, axes))
      t = torch::stable::contiguous(t);
  }
  Call question{.op = op,
                .purpose = Purpose::footprint,
                .on_shards = call.on_shards,
                .lines = call.prepares() ? nullptr : call.lines};
  function(question, placeholder_of(image, indices.empty() ? 0 : indices[0]));
  if (image.from_end() <= axes) return run_spatial(call, axes, image, indices, question.footprint, function);
  return run_slices(call, image, indices, question.footprint, function);
}

Tensor on_device_of(const Call& call, const Tensor& input, const Tensor& window) {
  if (!on_another_gpu(input, window)) return window;
  if (!call.runs())
    return placeholder(input, sizes_of(window), contiguous_strides(sizes_of(window)), window.scalar_type());
  const Device device = device_of(input);
  const Tensor there = copy_to(window, device, shards_of(call).streams);
  if (call.graph)
    call.graph->record_tensor(there, [device, source = call.graph->index_of(window)](Replay& r) {
      return copy_to(r.tensor(source), device, r.on_shards ? &r.on_shards->streams : nullptr);
    });
  return there;
}

bool read_from_peer(const Call& call, const Tensor& input, const Tensor& window) {
  SplitStreams* streams = shards_of(call).streams;
  if (!call.runs() || !streams || !on_another_gpu(input, window)) return false;
  const int reader = input.get_device_index();
  const bool small = window.numel() * int64_t(window.element_size()) <= kMostReadFromPeer;
  if (!small || !can_read(reader, window) || !streams->read_from_peer(window, reader)) return false;
  if (call.graph) {
    const int at = call.graph->index_of(window);
    call.graph->guard([reader, at](const std::vector<Tensor>& given) { return can_read(reader, given[at]); });
    call.graph->record([reader, at](Replay& r) { r.on_shards->streams.read_from_peer(r.tensor(at), reader); });
  }
  return true;
}

Tensor argument_of(const Call& call, int axes, int window_axes, const Tensor& window) {
  if (window_axes == 0) return window;
  Tensor part = window;
  if (const Slice* slice = shards_of(call).slice) {
    const int64_t leading = window.dim() - window_axes, before = slice->dim_from_end - axes - 1;  // 0 channel, 1 sample
    const int64_t dim = before == 0 ? 1 : 0;
    if (before <= 1 && leading > dim && window.size(dim) > 1) part = narrow(part, dim, slice->begin, slice->size);
  }
  return part;
}

std::vector<Tensor> argument_of(const Call& call, int axes, int window_axes, const std::vector<Tensor>& windows) {
  std::vector<Tensor> parts;
  for (const Tensor& window : windows) parts.push_back(argument_of(call, axes, window_axes, window));
  return parts;
}

}  // namespace torch_conv
