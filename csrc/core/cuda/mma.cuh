// Products of matrices of 16-bit numbers on tensor cores, one for a warp, summed in float32. Compute capability 8.0 on.
#pragma once

#include "core/cuda/device.cuh"

namespace torch_conv {

#define TC_MMA(SHAPE, ...)                                                                    \
  if constexpr (std::is_same_v<T, half_t>)                                                    \
    asm("mma.sync.aligned." SHAPE ".row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, " __VA_ARGS__); \
  else asm("mma.sync.aligned." SHAPE ".row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, " __VA_ARGS__)

// sum += a * b: 16 rows, 16 of a's columns, 8 of b's.
template <typename T>
__device__ __forceinline__ void mma_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  TC_MMA("m16n8k16", "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
         : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// sum += a * b: 16 rows, 8 of a's columns, 8 of b's.
template <typename T>
__device__ __forceinline__ void mma_add(float (&sum)[4], unsigned a0, unsigned a1, unsigned b) {
  TC_MMA("m16n8k8", "{%4, %5}, {%6}, {%0, %1, %2, %3};"
         : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
         : "r"(a0), "r"(a1), "r"(b));
}

// sum = a * b + c
template <typename T>
__device__ __forceinline__ void mma_into(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, float c0,
                                         float c1, float c2, float c3) {
  TC_MMA("m16n8k16", "{%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
         : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c0), "f"(c1), "f"(c2), "f"(c3));
}

#undef TC_MMA

}  // namespace torch_conv
