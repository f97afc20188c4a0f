// Which rows an output reads and which shard it belongs to: numbers only.
#pragma once

#include <algorithm>

#include "core/ranges.h"
#include "tensors/call.h"

namespace torch_conv {

// Outputs that belong to the rows in front of `row`, of an image of n: an output belongs to one row, that of its
// middle.
inline int64_t outputs_before(int64_t row, const AxisReach& r, int64_t n) {
  if (row <= 0) return 0;
  if (row >= n) return r.out;
  return std::clamp<int64_t>(ceil_div(std::max<int64_t>(row - r.middle, 0), r.stride), 0, r.out);
}

// The rows of the image that some outputs' windows need. Beyond its ends too for circular borders, which go on there;
// for those that repeat rows, with the rows that they repeat.
inline Range rows_read(Range outputs, const AxisReach& r, int64_t n, Border border) {
  const int64_t begin = outputs.begin * r.stride - r.pad;
  const int64_t end = (outputs.end - 1) * r.stride - r.pad + r.length;
  if (border == Border::circular) return {begin, end};
  Range rows{std::clamp<int64_t>(begin, 0, n - 1), std::clamp<int64_t>(end, 1, n)};
  if (border != Border::reflect && border != Border::symmetric && border != Border::replicate) return rows;
  const int64_t above = std::max<int64_t>(0, -begin), below = std::max<int64_t>(0, end - n);
  if (above > 0) rows.end = std::max(rows.end, std::min(n, above + 1));
  if (below > 0) rows.begin = std::min(rows.begin, std::max<int64_t>(0, n - 1 - below));
  return std::max(above, below) < n ? rows : Range{0, n};
}

}  // namespace torch_conv
