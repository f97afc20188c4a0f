// Two sums rounded to 16-bit elements, or to bytes, in one word.
#pragma once

#include "core/dtype.h"

namespace torch_conv {

// One instruction rounds both to nearest even and packs them; `low` comes first in memory.
template <typename T>
__device__ __forceinline__ unsigned round_pair(float low, float high) {
  static_assert(std::is_same_v<T, half_t> || std::is_same_v<T, bhalf_t>);
  unsigned word;
  if constexpr (std::is_same_v<T, half_t>) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

// Rounds to nearest even and clamps to a byte; NaN becomes 0.
__device__ __forceinline__ unsigned round_byte(float x) {
  unsigned byte;
  asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(byte) : "f"(x));
  return byte;
}

// Two bytes, `low` first in memory.
__device__ __forceinline__ unsigned round_bytes(float low, float high) {
  return __byte_perm(round_byte(low), round_byte(high), 0x0040);
}

}  // namespace torch_conv
