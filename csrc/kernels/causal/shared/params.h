// Parameters that the family's variants share.
#pragma once

#include "kernels/causal/problem.h"

namespace torch_conv::causal {

// Blocks, and groups of lanes, that kernels count in 32 bits.
constexpr int64_t kLargestGrid = (int64_t(1) << 31) - 1024;

// i / divisor for i below 2^31, by a multiplication: a division is 25 instructions.
struct Divide {
  unsigned divisor, magic, shift;
  static Divide by(int64_t divisor) {
    unsigned shift = 0;
    while ((int64_t(1) << shift) < divisor) ++shift;
    const uint64_t magic = (uint64_t(1) << 32) * ((uint64_t(1) << shift) - uint64_t(divisor)) / uint64_t(divisor) + 1;
    return {unsigned(divisor), unsigned(magic), shift};
  }
#ifdef __CUDACC__
  __device__ __forceinline__ unsigned of(unsigned i) const { return (__umulhi(i, magic) + i) >> shift; }
#endif
};

// The starts of a tensor's sequences and channels, by products of 32 bits.
struct Starts {
  unsigned stride_n, stride_c, stride_l;
  static Starts of(const Signal& s) { return {unsigned(s.stride_n), unsigned(s.stride_c), unsigned(s.stride_l)}; }
};

struct UpdateArgs {
  CausalUpdate p;
  Divide across;  // blocks over the channels
};

}  // namespace torch_conv::causal
