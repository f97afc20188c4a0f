// A call on shards along a spatial dimension.
#pragma once

#include <span>

#include "sharding/spatial_layout.h"
#include "sharding/split.h"
#include "sharding/split_streams.h"

namespace torch_conv {

class SpatialSplit {
 public:
  SpatialSplit(const Call& call, int axes, const ShardedImage& image, const Footprint& footprint,
               const ShardCall& function)
      : call_(call),
        axes_(axes),
        image_(image),
        footprint_(footprint),
        function_(function),
        from_end_(image.from_end()),
        layout_(call_, axes, image, footprint) {}

  // The results of the wanted shards.
  std::vector<Tensor> run(const Sizes& wanted);

 private:
  Tensor result_of(const ShardOutputs& shard) const;
  // `shards`: this one first, then shards that are not filtered yet.
  void filter_interior(ShardOutputs& shard, std::span<ShardOutputs> shards);
  bool filter_in_place(ShardOutputs& shard, std::span<ShardOutputs> shards);
  void filter_boundaries(const ShardOutputs& shard, std::vector<BoundaryStrip>& strips);
  void copy_rows_to(std::span<BoundaryStrip> strips) const;
  void copy_outputs_of(std::span<BoundaryStrip> strips, const ShardOutputs& shard);
  void* begin_boundaries(const ShardOutputs& shard, std::span<BoundaryStrip> strips);
  // `tensor` holds all rows that the outputs read; the first one's window starts `pad` before it.
  void filter_rows(const ShardOutputs& shard, const Tensor& tensor, int64_t pad, Range outputs);
  Part part_of(int64_t pad, Range outputs, const Tensor& result) const;
  void call_on_part(Part& part, const Tensor& tensor);
  Tensor call_on_whole(const Tensor& tensor);
  void explain(const ShardOutputs& shard, const char* part) const;

  const Call call_;
  int axes_;
  const ShardedImage& image_;
  const Footprint& footprint_;
  const ShardCall& function_;
  int64_t from_end_;
  SpatialLayout layout_;
  std::optional<SplitStreams> streams_;
};

}  // namespace torch_conv
