// The number of times that a window reads each pixel of an axis, also for windows far larger than the axis.
#pragma once

#include "core/border.h"
#include "core/ranges.h"

namespace torch_conv::box {

// The number of positions in [first, first + k) that read pixel m of an axis of n.
inline int64_t reads_of(int64_t m, int64_t first, int64_t k, int64_t n, Border border) {
  const int64_t end = first + k;
  const int64_t own = overlap(first - m, k, 1);
  if (border == Border::replicate)
    return own + (m == 0 ? std::clamp<int64_t>(-first, 0, k) : 0) +
           (m == n - 1 ? std::clamp<int64_t>(end - n, 0, k) : 0);
  const int64_t period = period_of(border, n);
  if (period == 0) return own;
  const auto every = [&](int64_t at) { return floor_div(end - 1 - at, period) - floor_div(first - 1 - at, period); };
  // A mirror shows a pixel twice in a period, but one at an end once unless it repeats the edge.
  const int64_t other = is_mirror(border) ? period - m - rule_of(border).edge_twice : m;
  return every(m) + (other % period != m ? every(other) : 0);
}

}  // namespace torch_conv::box
