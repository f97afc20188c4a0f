// Parameters that the family's variants share.
#pragma once

#include "kernels/causal/problem.h"

namespace torch_conv::causal {

// Blocks, and groups of lanes, that kernels count in 32 bits.
constexpr int64_t kLargestGrid = (int64_t(1) << 31) - 1024;

// Division of numbers below 2^31, without the comparison of FastDivisor, with which `channels` spills.
struct Divisor {
  unsigned divisor, factor, shift;
  static Divisor of(int64_t divisor) {
    unsigned shift = 0;
    while ((int64_t(1) << shift) < divisor) ++shift;
    const uint64_t factor = (uint64_t(1) << 32) * ((uint64_t(1) << shift) - uint64_t(divisor)) / uint64_t(divisor) + 1;
    return {unsigned(divisor), unsigned(factor), shift};
  }
#ifdef __CUDACC__
  __device__ __forceinline__ unsigned divide(unsigned i) const { return (__umulhi(i, factor) + i) >> shift; }
#endif
};

// The starts of a tensor's sequences and channels, by products of 32 bits.
struct Starts {
  unsigned stride_n, stride_c, stride_l;
  static Starts of(const Signal& s) { return {unsigned(s.stride_n), unsigned(s.stride_c), unsigned(s.stride_l)}; }
};

struct UpdateArgs {
  CausalUpdate p;
  Divisor across;  // blocks over the channels
};

}  // namespace torch_conv::causal
