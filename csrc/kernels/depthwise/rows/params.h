// What ROWS' launches and kernels agree on.
#pragma once

#include "core/problem.h"

namespace torch_conv::depthwise {

// Quotients of numbers below 2^31 by a number that is known before the launch: one multiplication.
struct RowsDivisor {
  uint32_t divisor, magic, shift, whole;  // whole: all ones where the divisor is 1, whose magic does not fit

  static RowsDivisor of(int64_t divisor) {
    if (divisor == 1) return {1, 0, 0, ~0u};
    uint32_t shift = 0;
    while ((int64_t(2) << shift) < divisor) ++shift;  // 2^shift < divisor <= 2^(shift + 1)
    return {uint32_t(divisor), uint32_t(((uint64_t(1) << (32 + shift)) + divisor - 1) / divisor), shift, 0};
  }
#ifdef __CUDACC__
  __device__ __forceinline__ uint32_t quotient(uint32_t n) const { return (__umulhi(n, magic) >> shift) + (n & whole); }
#endif
};

// Where a vector's input begins within 16 bytes, if that is not the same for all rows.
constexpr int kRowsFunnel = -1, kRowsBranch = -2;

struct RowsArgs {
  const void *in, *weight, *bias;
  void* out;
  int64_t in_stride_n, in_stride_c, out_stride_n, out_stride_c;
  int64_t first, last;  // elements of the input's memory, counted from `in`: [first, last) may be read
  int in_w, out_w, pad;
  uint32_t lanes;                           // in all
  RowsDivisor slots, channels, multiplier;  // lanes of a row; output channels; outputs of an input channel
};

}  // namespace torch_conv::depthwise
