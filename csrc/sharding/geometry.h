// Rows of an axis that is cut into shards: which rows an output reads, which shard holds them, and which shard an
// output belongs to. Numbers only. geometry.cpp has the operators by which Python asks.
#pragma once

#include <algorithm>
#include <vector>

#include "core/ranges.h"
#include "tensors/call.h"

namespace torch_conv {

// The shard that holds a row in [0, n). Shard i holds the rows [bounds[i], bounds[i + 1]); the last bound is n.
inline size_t holder_of(int64_t row, const Sizes& bounds) {
  return std::upper_bound(bounds.begin(), bounds.end(), row) - bounds.begin() - 1;
}

// How many outputs belong to the rows in front of `row`, of an image of n. An output belongs to the row of its middle.
inline int64_t outputs_before(int64_t row, const AxisFootprint& r, int64_t n) {
  if (row <= 0) return 0;
  if (row >= n) return r.out;
  return std::clamp<int64_t>(ceil_div(std::max<int64_t>(row - r.middle, 0), r.stride), 0, r.out);
}

// The rows under the windows of some outputs; they may lie outside the image.
inline Range rows_under(Range outputs, const AxisFootprint& r) {
  return {outputs.begin * r.stride - r.pad, (outputs.end - 1) * r.stride - r.pad + r.length};
}

// The rows of the image that the windows of some outputs need. With a circular border they go on beyond the image's
// ends. With a border that repeats rows, the repeated rows are among them.
Range rows_read(Range outputs, const AxisFootprint& r, int64_t n, Border border);

// Rows that one shard holds, in the order in which the extended image has them.
struct Run {
  int64_t holder;  // -1: no shard; the border's value stands there
  int64_t first;   // the lowest row, counted from the holder's first
  int64_t count;
  int64_t step;  // 1; -1: from the last row to the first; 0: one row `count` times
};

// The rows of the extended image, shard by shard.
std::vector<Run> runs_of(Range rows, const Sizes& bounds, Border border);

// Rows of an image that make a smaller image. A filter of it makes wanted outputs of the whole image. Its ends are
// those of the whole image, where the border acts as it should, or they lie beyond every wanted output's window.
struct Piece {
  std::vector<Range> rows;  // two ranges for circular outputs at one end that need rows of the other
  int64_t skip, count;      // outputs of the piece before the wanted ones; wanted outputs
  Range cut;                // rows of the piece to which the wanted outputs belong
  int64_t cut_skip;         // outputs that belong to those rows but stand before the wanted ones
};

// The piece for some outputs on the shard that holds the rows `held` of n.
Piece piece_for(Range outputs, int64_t n, const AxisFootprint& r, bool circular, Range held);

}  // namespace torch_conv
