// Products of sparse weights and pixels of interleaved channels on tensor cores, summed in float32.
#pragma once

#include "core/dtype.h"

namespace torch_conv::depthwise {

// All lanes use the same order of channels: rows 0-7 of the weights take numbers 0 and 2 of every four, rows 8-15
// numbers 1 and 3.
constexpr unsigned kSparseOrder = 0xdddd8888;

// to = from + weights * pixels: 16 outputs, 32 numbers of pixels (2:4 sparse weights), 8 columns.
template <typename T>
__device__ __forceinline__ void sparse_mma(float (&to)[4], const float (&from)[4], const unsigned (&weight)[4],
                                           const unsigned (&pixels)[4]) {
#define TC_SPARSE_MMA(TYPE)                                                                             \
  asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32." TYPE "." TYPE                       \
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%12, %13, %14, %15}, %16, 0x0;"    \
      : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])                                              \
      : "r"(weight[0]), "r"(weight[1]), "r"(weight[2]), "r"(weight[3]), "r"(pixels[0]), "r"(pixels[1]), \
        "r"(pixels[2]), "r"(pixels[3]), "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3]), "r"(kSparseOrder))
  if constexpr (std::is_same_v<T, half_t>) {
    TC_SPARSE_MMA("f16");
  } else {
    TC_SPARSE_MMA("bf16");
  }
#undef TC_SPARSE_MMA
}

}  // namespace torch_conv::depthwise
