// Rung 3, tiled (V2): the block loads its tile and the halo into shared memory once, then reads only there.
//
//      shared memory of one block, radius R = K / 2
//      h h h h h h h h      h  halo: of the neighbours' tiles, R deep
//      h o o o o o o h      o  tile: BX x BY, one output pixel per thread
//      h o o o o o o h
//      h o o o o o o h      BX BY threads load (BX + K - 1)(BY + K - 1) pixels:
//      h h h h h h h h      some threads load twice, and the last round is partly idle
//
// Per output pixel, BX x BY = 32 x 16, K = 5:  global loads  4 (36 * 20) / (32 * 16) = 5.6 bytes instead of 100
//                                              shared loads  4 K^2 = 100 bytes
//                                              arithmetic    2 K^2 = 50 flops
//
// Against rung 2: a block fetches every pixel once, and tests the border once a fetch instead of once a tap. K is known
// to the compiler: loops unroll, and a tap is an operand of the multiply-add. The price is a barrier during which no
// thread computes, and halo pixels that up to four blocks fetch.
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

// Over signals. Per number, N = 256 threads, K = 5: global loads 4 * 260 / 256 = 4.1 bytes instead of 20. One axis has
// little halo: short windows save little.
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

// Over volumes, with the taps in constant memory. Block and window are chosen at run time: taps are no operands.
//
//      shared memory of one block, cut along z, window KD x KH x KW
//
//      KD / 2 planes        BZ planes           KD / 2 planes
//      h h h h h h h h      h h h h h h h h     h h h h h h h h
//      h h h h h h h h      h o o o o o o h     h h h h h h h h
//      h h h h h h h h      h o o o o o o h     h h h h h h h h
//      h h h h h h h h      h h h h h h h h     h h h h h h h h
//
// Per output voxel, block 8 x 8 x 8, K = 15: global loads 4 * 22^3 / 8^3 = 83 bytes instead of 13500, shared loads 4
// K^3 = 13500 bytes. The halo outweighs the tile: 22^3 voxels for 8^3 results. Shared memory limits the window, and
// sets the pace by one load for every multiply-add.
template <int N>
__device__ __forceinline__ void filter_tile(const Volumes& volumes, const int kd, const int kh, const int kw,
                                            const ConstantWindow<N>& window) {
  extern __shared__ float tile[];
  const int tile_w = blockDim.x + kw - 1, tile_h = blockDim.y + kh - 1, tile_d = blockDim.z + kd - 1;
  const int left = volumes.left() - kw / 2, top = volumes.top() - kh / 2, front = volumes.front() - kd / 2;

  for (int z = threadIdx.z; z < tile_d; z += blockDim.z)
    for (int y = threadIdx.y; y < tile_h; y += blockDim.y)
      for (int x = threadIdx.x; x < tile_w; x += blockDim.x)
        tile[(z * tile_h + y) * tile_w + x] = volumes.read(front + z, top + y, left + x);
  __syncthreads();  // the whole block's tile is there

  float sum = 0.0f;
  for (int l = 0; l < kd; ++l)
    for (int i = 0; i < kh; ++i) {
      const float* row = tile + ((threadIdx.z + l) * tile_h + threadIdx.y + i) * tile_w + threadIdx.x;
      for (int j = 0; j < kw; ++j) sum = fmaf(window.tap[(l * kh + i) * kw + j], row[j], sum);
    }
  volumes.write(volumes.front() + threadIdx.z, volumes.top() + threadIdx.y, volumes.left() + threadIdx.x, sum);
}

template <int N>
__global__ void __launch_bounds__(1024) ladder3d_tiled(const Volumes volumes, const int kd, const int kh, const int kw,
                                                       const __grid_constant__ ConstantWindow<N> window) {
  filter_tile(volumes, kd, kh, kw, window);
}

}  // namespace torch_conv::ladder
