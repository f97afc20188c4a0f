// After how many pixels does an axis that a border extends repeat itself?
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/border.h"

namespace torch_conv {

// 0: never, since what lies outside is no pixel or always the last one.
inline int64_t period_of(Border border, int64_t n) {
  switch (border) {
    case Border::circular: return n;
    case Border::reflect: return std::max<int64_t>(1, 2 * n - 2);
    case Border::symmetric: return 2 * n;
    case Border::constant:
    case Border::replicate:
    case Border::skip:
    case Border::zero_output: return 0;
  }
  __builtin_unreachable();
}

}  // namespace torch_conv
