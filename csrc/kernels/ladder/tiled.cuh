// Rung 3, tiled (V2): the block brings its tile and the halo into shared memory once, then reads only there.
//
//      shared memory of one block, radius R = K / 2
//      h h h h h h h h      h  halo: belongs to the neighbours' tiles, R deep
//      h o o o o o o h      o  tile: BX x BY, one output pixel per thread
//      h o o o o o o h
//      h o o o o o o h      BX BY threads bring (BX + K - 1)(BY + K - 1) pixels:
//      h h h h h h h h      some threads load twice, and the last round is partly idle
//
// Per output pixel, BX x BY = 32 x 16, K = 5:  asked of L1/L2  4 (36 * 20) / (32 * 16) = 5.6 bytes instead of 100
//                                              from shared     4 K^2 = 100 bytes
//                                              from DRAM       4 read + 4 written
//                                              arithmetic      2 K^2 = 50 flops
//
// Against rung 2: every pixel is fetched once a block, the border is tested once a fetch and not once a tap, and with
// K known to the compiler the loops unroll, so a tap is an operand of the multiply-add and no load at all. The price:
// a barrier during which nobody computes, and halo pixels that up to four blocks fetch.
#pragma once

#include "kernels/ladder/params.h"

namespace torch_conv::ladder {

template <int BX, int BY, int K>
__global__ void __launch_bounds__(BX* BY)
    ladder2d_tiled(const Planes planes, const __grid_constant__ ConstantWindow<K * K> window) {
  constexpr int kRadius = K / 2, kTileW = BX + K - 1, kTileH = BY + K - 1;
  __shared__ float tile[kTileH][kTileW];
  const int left = blockIdx.x * BX - kRadius, top = blockIdx.y * BY - kRadius;

  for (int e = threadIdx.y * BX + threadIdx.x; e < kTileH * kTileW; e += BX * BY)
    tile[e / kTileW][e % kTileW] = planes.read(top + e / kTileW, left + e % kTileW);
  __syncthreads();  // the whole block's tile is there

  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < K; ++i)
#pragma unroll
    for (int j = 0; j < K; ++j) sum = fmaf(window.tap[i * K + j], tile[threadIdx.y + i][threadIdx.x + j], sum);
  planes.write(blockIdx.y * BY + threadIdx.y, blockIdx.x * BX + threadIdx.x, sum);
}

}  // namespace torch_conv::ladder
