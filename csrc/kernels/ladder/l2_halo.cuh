// Rung 4, l2_halo: only the tile lives in shared memory; halo pixels are left to the caches.
//
//      . . . . . . . .      o  tile: one pixel per thread, one load each, in shared memory
//      . o o o o o o .      .  halo: read from global memory when a tap falls there; the
//      . o o o o o o .         neighbouring block loads these pixels for its own tile at about
//      . o o o o o o .         the same time, so they come from L2 (or L1), seldom from DRAM
//      . . . . . . . .
//
// Per output pixel, BX x BY = 32 x 16, K = 5:  brought in once  4 bytes (the tile is exactly the block)
//                                              from caches      11 bytes (11 % of the taps fall in the halo)
//                                              from shared      89 bytes
//                                              from DRAM        4 read + 4 written
//                                              arithmetic       2 K^2 = 50 flops
//
// Against rung 3: input and output tile are the same size, so loading needs no loop and no thread idles. Bought with
// a test for every tap, on which the threads at the rim of the block go another way than the rest of their warp.
#pragma once

#include "kernels/ladder/params.h"

namespace torch_conv::ladder {

template <int BX, int BY, int K>
__global__ void __launch_bounds__(BX* BY)
    ladder2d_l2_halo(const Planes planes, const __grid_constant__ ConstantWindow<K * K> window) {
  __shared__ float tile[BY][BX];
  const int left = blockIdx.x * BX, top = blockIdx.y * BY;

  tile[threadIdx.y][threadIdx.x] = planes.read(top + threadIdx.y, left + threadIdx.x);
  __syncthreads();  // the whole block's tile is there

  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < K; ++i)
#pragma unroll
    for (int j = 0; j < K; ++j) {
      const int y = int(threadIdx.y) + i - K / 2, x = int(threadIdx.x) + j - K / 2;
      const bool here = unsigned(y) < BY && unsigned(x) < BX;
      const float pixel = here ? tile[y][x] : planes.read(top + y, left + x);
      sum = fmaf(window.tap[i * K + j], pixel, sum);
    }
  planes.write(top + threadIdx.y, left + threadIdx.x, sum);
}

}  // namespace torch_conv::ladder
