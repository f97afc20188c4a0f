// 3-D rung 3, tiled3d: taps in constant memory, and the block brings its tile and the halo into shared memory once.
//
//      shared memory of one block, cut along z, window KD x KH x KW
//
//      KD / 2 planes        BZ planes           KD / 2 planes       h  halo: belongs to the neighbours' tiles
//      h h h h h h h h      h h h h h h h h     h h h h h h h h     o  tile: BX x BY x BZ, one voxel per thread
//      h h h h h h h h      h o o o o o o h     h h h h h h h h
//      h h h h h h h h      h o o o o o o h     h h h h h h h h     all threads bring the whole box, each as many
//      h h h h h h h h      h h h h h h h h     h h h h h h h h     voxels as blocks fit into it
//
// Per output voxel, block 8 x 8 x 8, K = 15:  asked of L1/L2  4 * 22^3 / 8^3 = 83 bytes instead of 13500
//                                             from shared     4 K^3 = 13500 bytes
//                                             from DRAM       4 read + 4 written
//                                             arithmetic      2 K^3 = 6750 flops
//
// Against rung 2: every voxel is fetched once a block, and the border is tested once a fetch and not once a tap. What
// the third axis changes: the halo outweighs the tile (22^3 voxels for 8^3 results; the 2-D rung had 36 * 20 for
// 32 * 16), shared memory limits the window (refused where tile and halo exceed what a block may have), and shared
// memory sets the pace: one load for every multiply-add.
// Block and window are chosen at run time here, so no loop unrolls into taps that are operands, as they are in 2-D.
#pragma once

#include "kernels/ladder/params.h"

namespace torch_conv::ladder {

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
