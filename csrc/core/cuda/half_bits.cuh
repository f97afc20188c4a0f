// Tests of 16-bit floating-point numbers by their bits.
#pragma once

#include "core/dtype.h"

namespace torch_conv {

// A number with all exponent bits set is infinite or NaN.
template <typename T>
constexpr unsigned kExponentBits = std::is_same_v<T, half_t> ? 0x7c00 : 0x7f80;

template <typename T>
__device__ __forceinline__ bool is_nan(unsigned bits) {
  return (bits & 0x7fff) > kExponentBits<T>;
}

template <typename T>
__device__ __forceinline__ bool is_finite(unsigned bits) {
  return (bits & kExponentBits<T>) != kExponentBits<T>;
}

// 0 * word + sum, for the two elements of a word. The sum is NaN from the first element on that is not finite.
template <typename T>
__device__ __forceinline__ unsigned add_zero_times(unsigned word, unsigned sum) {
  unsigned r;
  if constexpr (std::is_same_v<T, half_t>) asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(word), "r"(0), "r"(sum));
  else asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(word), "r"(0), "r"(sum));
  return r;
}

}  // namespace torch_conv
