// 1-D rung 3, tiled1d: the block brings its tile and the halo into shared memory once, then reads only there.
//
//      shared memory of one block, radius R = K / 2
//      h h o o o o o o o o h h     h  halo: belongs to the neighbours' tiles, R at each end
//                                  o  tile: one number per thread
//
//      N threads bring N + K - 1 numbers, the input tile, which is larger than the output tile
//
// Per number, N = 256, K = 5:  asked of L1/L2  4 * 260 / 256 = 4.1 bytes instead of 20
//                              from shared     4 K = 20 bytes
//                              from DRAM       4 read + 4 written
//                              arithmetic      2 K = 10 flops
//
// Against rung 2: every number is fetched once a block, and ghost cells are tested once a fetch and not once a tap. The
// price: a barrier during which nobody computes. One axis has little halo, so little is gained while windows are short.
#pragma once

#include "kernels/ladder/params.h"

namespace torch_conv::ladder {

__global__ void __launch_bounds__(1024)
    ladder1d_tiled(const Rows rows, const int k, const __grid_constant__ ConstantWindow<kMaxTaps> window) {
  extern __shared__ float tile[];
  const int tile_w = blockDim.x + k - 1, first = blockIdx.x * blockDim.x;

  for (int e = threadIdx.x; e < tile_w; e += blockDim.x) tile[e] = rows.read(first - k / 2 + e);
  __syncthreads();  // the whole block's tile is there

  float sum = 0.0f;
  for (int j = 0; j < k; ++j) sum = fmaf(window.tap[j], tile[threadIdx.x + j], sum);
  rows.write(first + threadIdx.x, sum);
}

}  // namespace torch_conv::ladder
