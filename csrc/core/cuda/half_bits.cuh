// What the bits of a 16-bit number say.
#pragma once

#include "core/dtype.h"

namespace torch_conv {

// All of them set: infinite or NaN.
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

// Of two elements in a word: 0 * word + sum, where NaN stays once there was an element that is not finite.
template <typename T>
__device__ __forceinline__ unsigned add_zero_times(unsigned word, unsigned sum) {
  unsigned r;
  if constexpr (std::is_same_v<T, half_t>) asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(word), "r"(0), "r"(sum));
  else asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(word), "r"(0), "r"(sum));
  return r;
}

}  // namespace torch_conv
