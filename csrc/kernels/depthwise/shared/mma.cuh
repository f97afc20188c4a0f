// The variants on tensor cores: words of two 16-bit elements in shared memory, and pairs of outputs.
#pragma once

#include "core/activation.h"
#include "core/cuda/half_bits.cuh"
#include "core/cuda/mma.cuh"
#include "core/cuda/round_pair.cuh"

namespace torch_conv::depthwise {

// Shared memory is addressed by 32 bits, which take one register.
__device__ __forceinline__ unsigned read_word(unsigned at) {
  unsigned word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
  return word;
}

__device__ __forceinline__ uint2 read_two(unsigned at) {
  uint2 words;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "r"(at) : "memory");
  return words;
}

__device__ __forceinline__ unsigned read_half(unsigned at) {
  uint16_t half;
  asm volatile("ld.shared.b16 %0, [%1];" : "=h"(half) : "r"(at) : "memory");
  return half;
}

__device__ __forceinline__ void write_word(unsigned at, unsigned word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(word) : "memory");
}

__device__ __forceinline__ void write_half(unsigned at, unsigned half) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(at), "h"(uint16_t(half)) : "memory");
}

__device__ __forceinline__ void load_both(unsigned& a, unsigned& b, unsigned from) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(from));
}

__device__ __forceinline__ void store_both_if(bool condition, unsigned to, unsigned a, unsigned b) {
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %0, 0; @p st.shared.v2.b32 [%1], {%2, %3}; }" ::"r"(int(condition)),
               "r"(to), "r"(a), "r"(b)
               : "memory");
}

// Two neighbouring outputs in a word.
template <typename T, Activation kind>
__device__ __forceinline__ unsigned output_pair(float low, float high) {
  return round_pair<T>(activated<kind>(low), activated<kind>(high));
}

}  // namespace torch_conv::depthwise
