// 1-D rung 4, l2_halo1d: only the tile lives in shared memory; the halo is left to the caches.
//
//      . . o o o o o o o o . .     o  tile: one number per thread, one load each, in shared memory
//                                  .  halo: read from global memory when a tap falls there; the neighbouring block
//                                     loads these numbers for its own tile at about the same time, so they come from
//                                     L2 (or L1), seldom from DRAM
//
// Per number, N = 256, K = 5:  brought in once  4 bytes (the tile is exactly the block)
//                              from caches      0.1 bytes (6 of 1280 taps fall in the halo)
//                              from shared      20 bytes
//                              from DRAM        4 read + 4 written
//                              arithmetic       2 K = 10 flops
//
// Against rung 3: input and output tile are the same size, so loading needs no loop. Bought with a test for every tap,
// on which only the first and the last warps of a block diverge.
#pragma once

#include "kernels/ladder/params.h"

namespace torch_conv::ladder {

__global__ void __launch_bounds__(1024)
    ladder1d_l2_halo(const Rows rows, const int k, const __grid_constant__ ConstantWindow<kMaxTaps> window) {
  extern __shared__ float tile[];
  const int first = blockIdx.x * blockDim.x;

  tile[threadIdx.x] = rows.read(first + threadIdx.x);
  __syncthreads();  // the whole block's tile is there

  float sum = 0.0f;
  for (int j = 0; j < k; ++j) {
    const int x = int(threadIdx.x) + j - k / 2;
    const float number = unsigned(x) < blockDim.x ? tile[x] : rows.read(first + x);
    sum = fmaf(window.tap[j], number, sum);
  }
  rows.write(first + threadIdx.x, sum);
}

}  // namespace torch_conv::ladder
