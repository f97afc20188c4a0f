// The rows of an image in shards, as a call along a spatial dimension needs them. Nothing runs here.
#pragma once

#include "sharding/geometry.h"
#include "sharding/split.h"

namespace torch_conv {

// An image in shards along a dimension.
struct ShardedImage {
  std::vector<Tensor> shards;
  int64_t dim;
  Sizes bounds;  // the first row of every shard, and the rows of the image

  int64_t size() const { return bounds.back(); }
  int64_t from_end() const { return shards[0].dim() - dim; }
  Range rows_of(size_t i) const { return {bounds[i], bounds[i + 1]}; }
};

// A shard with its outputs. The windows of `interior` stay in the shard's rows, or extend beyond the image.
struct ShardOutputs : Shard {
  size_t index;
  Range outputs, interior;
};

// Outputs at a shard boundary, and the rows that they read: one range, or two at opposite ends of the image.
struct BoundaryStrip {
  Range outputs;
  std::vector<Range> rows;
  int64_t pad;    // of the first output's window, before the first row
  Tensor tensor;  // the rows; then, where a call computes all outputs of a tensor, these outputs
};

class SpatialLayout {
 public:
  SpatialLayout(const Call& call, int axes, const ShardedImage& image, const Footprint& footprint)
      : call_(call),
        axes_(axes),
        image_(image),
        border_(footprint.border),
        ends_(footprint.zeros_outside),
        direct_(footprint.reads_shards),
        axis_(footprint.axis[kAxes - image.from_end()]) {}

  const AxisFootprint& axis() const { return axis_; }
  // The first row of an output's window.
  int64_t first_row(int64_t output) const { return output * axis_.stride - axis_.pad; }
  // The padding of a shard's outputs, from the shard's first row.
  int64_t pad_of(const ShardOutputs& shard) const {
    return image_.rows_of(shard.index).begin - first_row(shard.outputs.begin);
  }
  Range rows_read_by(Range outputs) const { return rows_read(outputs, axis_, image_.size(), border_); }

  ShardOutputs outputs_of(size_t i) const;
  BoundaryStrip strip_of(const ShardOutputs& shard, Range outputs) const;

  // f(shard, its first row, rows) for the rows of a strip.
  template <typename F>
  void for_each_run(const BoundaryStrip& strip, const F& f) const {
    for (const Range& rows : strip.rows)
      for (const Run& run : runs_of(rows, image_.bounds, Border::circular))
        f(image_.shards[run.holder], run.first, run.count);
  }

 private:
  bool circular() const { return border_ == Border::circular; }
  Range interior_of(Range outputs, Range rows) const;
  void find_neighbours(ShardOutputs& shard) const;

  const Call& call_;
  int axes_;
  const ShardedImage& image_;
  Border border_;
  bool ends_, direct_;  // as in Footprint
  AxisFootprint axis_;
};

// The results of the wanted shards, for a call along the image's dimension (spatial_split.cpp).
std::vector<Tensor> run_spatial(const Call& call, int axes, const ShardedImage& image, const Sizes& wanted,
                                const Footprint& footprint, const ShardCall& function);

}  // namespace torch_conv
