// Rows of an axis that is cut into shards: the rows that an output reads, the shard that holds them, and the shard of
// an output. Numbers only. geometry.cpp registers the operators that Python calls.
#pragma once

#include <algorithm>
#include <vector>

#include "core/ranges.h"
#include "graph/call.h"

namespace torch_conv {

// The shard that holds a row in [0, n). Shard i holds the rows [bounds[i], bounds[i + 1]); the last bound is n.
inline size_t holder_of(int64_t row, const Sizes& bounds) {
  return std::upper_bound(bounds.begin(), bounds.end(), row) - bounds.begin() - 1;
}

// The number of outputs whose middle is before `row`, of an image of n rows.
inline int64_t outputs_before(int64_t row, const AxisFootprint& r, int64_t n) {
  if (row <= 0) return 0;
  if (row >= n) return r.out;
  return std::clamp<int64_t>(ceil_div(std::max<int64_t>(row - r.middle, 0), r.stride), 0, r.out);
}

// The rows under the windows of some outputs. Rows may be outside the image.
inline Range rows_under(Range outputs, const AxisFootprint& r) {
  return {outputs.begin * r.stride - r.pad, (outputs.end - 1) * r.stride - r.pad + r.length};
}

// The rows of the image that the windows of some outputs read, with the rows that the border repeats. With a circular
// border the range continues beyond the image's ends.
Range rows_read(Range outputs, const AxisFootprint& r, int64_t n, Border border);

// Consecutive rows of the extended image that one shard holds.
struct Run {
  int64_t holder;  // -1: no shard; the rows have the border's value
  int64_t first;   // the lowest row, counted from the holder's first
  int64_t count;
  int64_t step;  // 1; -1: in descending order; 0: one row `count` times
};

// The rows of the extended image, shard by shard.
std::vector<Run> runs_of(Range rows, const Sizes& bounds, Border border);

// Rows of an image as a separate image. A filter of a piece computes wanted outputs of the whole image. Each end
// of a piece is an end of the whole image, with its border, or is outside all wanted outputs' windows.
struct Piece {
  std::vector<Range> rows;  // two ranges where circular outputs read rows of both ends
  int64_t skip, count;      // outputs of the piece before the wanted ones; wanted outputs
  Range cut;                // rows of the piece to which the wanted outputs belong
  int64_t cut_skip;         // outputs of those rows before the wanted ones
};

// The piece for some outputs on the shard that holds the rows `held` of n.
Piece piece_for(Range outputs, int64_t n, const AxisFootprint& r, bool circular, Range held);

}  // namespace torch_conv
