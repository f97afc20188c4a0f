// Rung 1, naive (V1): one thread per output pixel, everything through pointers.
//
//        in                      out
//      . . . . . .            . . . . . .
//      . a b c . .            . . . . . .        K = 3: the thread at y reads a .. i
//      . d e f . .    --->    . . y . . .        and writes y; its right neighbour
//      . g h i . .            . . . . . .        reads b c, e f, h i again.
//
// Per output pixel, K x K window:  asked for  4 K^2 bytes of pixels + 4 K^2 bytes of taps, 4 bytes written
//                                  from DRAM  4 read + 4 written, as long as caches catch the neighbours' overlap
//                                  arithmetic 2 K^2 flops
//
// Teaches: the mapping of pixels to threads (x fastest, so a warp reads neighbouring addresses) and the price of a
// load: two load instructions for every multiply-add, so the load units and not the memory set the pace.
#pragma once

#include "kernels/ladder/params.h"

namespace torch_conv::ladder {

// The taps come with the launch but are read through a generic pointer, as any array in memory would be.
__global__ void ladder2d_naive(const Planes planes, const int k,
                               const __grid_constant__ ConstantWindow<kMaxTaps> window) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  const int radius = k / 2;
  const float* taps = window.pointer();

  float sum = 0.0f;
  for (int i = 0; i < k; ++i)
    for (int j = 0; j < k; ++j) sum = fmaf(taps[i * k + j], planes.read(y + i - radius, x + j - radius), sum);
  planes.write(y, x, sum);
}

}  // namespace torch_conv::ladder
