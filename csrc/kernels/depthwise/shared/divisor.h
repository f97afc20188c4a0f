// Division of row numbers.
#pragma once

#include "core/problem.h"

namespace torch_conv::depthwise {

constexpr int floor_div(int a, int b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// Divides numbers below 2^31 by a constant of the launch, with one multiplication.
struct RowsDivisor {
  uint32_t divisor, magic, shift, pass_mask;  // pass_mask: all ones where the divisor is 1, whose magic does not fit

  static RowsDivisor of(int64_t divisor) {
    if (divisor == 1) return {1, 0, 0, ~0u};
    uint32_t shift = 0;
    while ((int64_t(2) << shift) < divisor) ++shift;  // 2^shift < divisor <= 2^(shift + 1)
    return {uint32_t(divisor), uint32_t(((uint64_t(1) << (32 + shift)) + divisor - 1) / divisor), shift, 0};
  }
#ifdef __CUDACC__
  __device__ __forceinline__ uint32_t quotient(uint32_t n) const {
    return (__umulhi(n, magic) >> shift) + (n & pass_mask);
  }
#endif
};

}  // namespace torch_conv::depthwise
