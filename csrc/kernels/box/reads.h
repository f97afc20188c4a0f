// The number of times that a window reads each pixel of an axis, also for windows far larger than the axis.
#pragma once

#include "core/border.h"
#include "core/ranges.h"

namespace torch_conv::box {

// The number of positions in [first, first + k) that read pixel m of an axis of n.
inline int64_t reads_of(int64_t m, int64_t first, int64_t k, int64_t n, Border border) {
  const int64_t end = first + k;
  const auto every = [&](int64_t at, int64_t period) {
    return floor_div(end - 1 - at, period) - floor_div(first - 1 - at, period);
  };
  switch (border) {
    case Border::circular: return every(m, n);
    case Border::symmetric: return every(m, 2 * n) + every(2 * n - 1 - m, 2 * n);
    case Border::reflect:
      if (n == 1) return k;
      return every(m, 2 * n - 2) + (m == 0 || m == n - 1 ? 0 : every(2 * n - 2 - m, 2 * n - 2));
    case Border::replicate:
      return overlap(first - m, k, 1) + (m == 0 ? std::clamp<int64_t>(-first, 0, k) : 0) +
             (m == n - 1 ? std::clamp<int64_t>(end - n, 0, k) : 0);
    case Border::constant:
    case Border::skip:
    case Border::zero_output: return overlap(first - m, k, 1);
  }
  __builtin_unreachable();
}

}  // namespace torch_conv::box
