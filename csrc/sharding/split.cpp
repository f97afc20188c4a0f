#include "sharding/split.h"

#include <numeric>

#include "graph/allocate.h"
#include "sharding/spatial_split.h"
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
                               const ShardCall& function) {
  SplitStreams streams(call, image.shards, wanted.size() > 1);
  record_streams(call, image.shards, wanted.size() > 1);
  std::vector<Tensor> results;
  for (int64_t i : wanted) {
    const Range rows = image.rows_of(i);
    if (rows.size() == 0) {
      Sizes sizes = call.whole_footprint->result;
      sizes[image.dim] = 0;
      results.push_back(allocate(call, image.shards[i], sizes, call.whole_footprint->dtype));
      continue;
    }
    const Slice slice{image.from_end(), rows.begin, rows.size()};
    Call slice_call = call_on(call, &slice);
    slice_call.graph = call.graph, slice_call.streams = &streams;
    results.push_back(function(slice_call, image.shards[i]));
  }
  streams.finish();
  record_finish(call);
  return results;
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
  const bool explains = call.purpose == Purpose::explain;
  Call question{.op = op, .purpose = Purpose::footprint, .is_query = explains, .is_shard = true};
  function(question, placeholder_of(image, indices.empty() ? 0 : indices[0]));
  Call on_shards = call;
  on_shards.whole_footprint = &question.footprint;
  if (image.from_end() <= axes) return SpatialSplit(on_shards, axes, image, question.footprint, function).run(indices);
  return run_slices(on_shards, image, indices, function);
}

}  // namespace torch_conv
