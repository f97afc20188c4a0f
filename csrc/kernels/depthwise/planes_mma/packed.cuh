// PLANES_MMA: loads and stores of words of two 16-bit elements.
#pragma once

#include "core/cuda/half_bits.cuh"
#include "core/cuda/mma.cuh"
#include "core/cuda/round_pair.cuh"
#include "core/cuda/tma.cuh"

namespace torch_conv::depthwise {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

namespace planes_mma {

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

}  // namespace planes_mma

#endif

}  // namespace torch_conv::depthwise
