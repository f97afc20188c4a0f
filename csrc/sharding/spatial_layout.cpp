#include "sharding/spatial_layout.h"

#include <algorithm>

#include "sharding/split_streams.h"
#include "tensors/images.h"

namespace torch_conv {

ShardOutputs SpatialLayout::outputs_of(size_t i) const {
  const int64_t n = image_.size();
  const Range rows = image_.rows_of(i);
  const Range outputs{outputs_before(rows.begin, axis_, n), outputs_before(rows.end, axis_, n)};
  ShardOutputs shard{{&image_.shards[i], image_.shards[i]}, i, outputs, outputs};
  shard.first = outputs.begin;
  if (outputs.size() > 0 && rows.size() < n) shard.interior = interior_of(outputs, rows);
  const int64_t inside = shard.interior.size();
  if (inside > 0 && inside < outputs.size()) find_neighbours(shard);
  return shard;
}

Range SpatialLayout::interior_of(Range outputs, Range rows) const {
  const bool first = rows.begin == 0 && !circular(), last = rows.end == image_.size() && !circular();
  Range inside = outputs;
  if (!first)
    inside.begin = std::max(inside.begin, ceil_div(std::max<int64_t>(rows.begin + axis_.pad, 0), axis_.stride));
  if (!last) inside.end = std::min(inside.end, floor_div(rows.end + axis_.pad - axis_.length, axis_.stride) + 1);
  const Range none{outputs.begin, outputs.begin};
  if (inside.begin >= inside.end) return none;
  const Range read = rows_read_by(inside);
  return read.begin < rows.begin || read.end > rows.end ? none : inside;  // the border repeats another shard's rows
}

// Kernels may read the neighbour shards that hold all rows which windows cover there.
void SpatialLayout::find_neighbours(ShardOutputs& shard) const {
  const int64_t n = image_.size();
  const Tensor& input = *shard.input;
  const Range rows = image_.rows_of(shard.index);
  const auto [begin, end] = rows_under(shard.outputs, axis_);
  // Along the first spatial axis: rows of images, planes of volumes.
  if (!direct_ || !on_cuda(call_, input) || image_.from_end() != axes_ || begin > rows.begin) return;
  const auto readable = [&](int64_t row, int64_t count) -> const Tensor* {
    const Tensor& t = image_.shards[holder_of(map_index(row, n, Border::circular), image_.bounds)];
    const bool plain = t.size(image_.dim) >= count && merge_leading(t, Dtype::f32, axes_);
    return plain && can_read(input.get_device_index(), t) ? &t : nullptr;
  };
  const bool reads_above = begin < rows.begin && (rows.begin > 0 || circular());
  const bool reads_below = end > rows.end && (rows.end < n || circular());
  const Tensor* above = reads_above ? readable(rows.begin - 1, rows.begin - begin) : nullptr;
  const Tensor* below = reads_below ? readable(rows.end, end - rows.end) : nullptr;
  if (reads_above == (above != nullptr) && reads_below == (below != nullptr))
    shard.above = above, shard.below = below, shard.before = rows.begin - begin, shard.behind = end - rows.end;
}

BoundaryStrip SpatialLayout::strip_of(const ShardOutputs& shard, Range outputs) const {
  const int64_t n = image_.size();
  const Range read = rows_read_by(outputs);
  BoundaryStrip strip{outputs, {read}, read.begin - first_row(outputs.begin), *shard.input};
  const int64_t above = std::max<int64_t>(0, -read.begin), below = std::max<int64_t>(0, read.end - n);
  if (circular() && ends_ && above + below > 0) {
    // The strip holds rows of both ends of the image. The strip's ends are then ends of an image with the same border.
    if (above + below + read.size() >= n) strip.rows = {{0, n}}, strip.pad = -first_row(outputs.begin);
    else if (above > 0) strip.rows = {{0, read.end}, {n - above, n}}, strip.pad = above;
    else strip.rows = {{0, below}, {read.begin, n}}, strip.pad = -below;
  }
  return strip;
}

}  // namespace torch_conv
