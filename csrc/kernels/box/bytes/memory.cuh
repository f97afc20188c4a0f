// The instructions of box_bytes that C++ has no words for.
#pragma once

#include "core/cuda/device.cuh"

namespace torch_conv::box {

// sum + low half * low byte of the weights + high half * next byte; halves are unsigned, weights signed.
__device__ __forceinline__ int add_halves(uint32_t halves, int weights, int sum) {
  int result;
  asm("dp2a.lo.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(halves), "r"(weights), "r"(sum));
  return result;
}

// 1 / x, but for the last bits.
__device__ __forceinline__ float near_reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// Read-only loads. Volatile keeps them in place, ahead of their use. They carry no L2 hints. H200, us, without and
// with:
//     hints to keep entering rows and drop leaving ones   8192^2, k = 15   57.6, 58.0
//     outputs stored with evict-first                     8192^2, k = 15   57.6, 58.5
//     rows fetched into L2 one to four batches ahead      8192^2, k = 15   57.6, 55.8 to 58.1
//                                                         4096^2, k = 15   19.6, 20.4; k = 200 103, 113
__device__ __forceinline__ uint2 load_words2(const uint8_t* from) {
  uint2 words;
  asm volatile("ld.global.nc.v2.b32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "l"(from));
  return words;
}
__device__ __forceinline__ uint32_t load_word(const uint8_t* from) {
  uint32_t word;
  asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(word) : "l"(from));
  return word;
}

// The next row, by an addition: the compiler would make the addresses of all rows beforehand, and run out of registers.
__device__ __forceinline__ const uint8_t* next_row(const uint8_t* row, int64_t stride) {
  row += stride;
  asm volatile("" : "+l"(row));
  return row;
}

}  // namespace torch_conv::box
