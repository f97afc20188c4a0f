// Shared by host and kernel of `combine`.
#pragma once

#include "core/problem.h"

namespace torch_conv::fused {

constexpr int kCombineThreads = 256;

// Whether such a step exists. `each` is none: its sums are the outputs.
constexpr bool combines(Point point, int windows) {
  switch (point) {
    case Point::each: return false;
    case Point::sum: return windows >= 1 && windows <= 3;
    case Point::l1:
    case Point::l2: return windows == 2 || windows == 3;
    case Point::products:
    case Point::polar: return windows == 2;
    case Point::sharpen: return windows == 1;
    case Point::thin: return windows == 3;
  }
  return false;
}

}  // namespace torch_conv::fused
