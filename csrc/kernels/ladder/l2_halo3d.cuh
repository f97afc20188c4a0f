// 3-D rung 4, l2_halo3d: only the tile lives in shared memory; halo voxels are left to the caches.
//
//      one plane of a block            o  tile: BX x BY x BZ, one voxel per thread, one load each, in shared memory
//      . . . . . . . .                 .  halo, here and in the planes before and behind: read from global memory when
//      . o o o o o o .                    a tap falls there; the neighbouring blocks load these voxels for their own
//      . o o o o o o .                    tiles at about the same time, so they come from L2 (or L1), seldom from DRAM
//      . . . . . . . .
//
// Per output voxel, block 8 x 8 x 8, K = 15:  brought in once  4 bytes (the tile is exactly the block)
//                                             from caches      11450 bytes (85 % of the taps fall in the halo)
//                                             from shared      2050 bytes
//                                             from DRAM        4 read + 4 written
//                                             arithmetic       2 K^3 = 6750 flops
//
// Against rung 3: shared memory holds 2 KB and not 42, so more blocks fit, and no window is too large for it. What the
// third axis changes: a block of few voxels a side has most of its window's taps in the halo, so this is rung 2 with a
// test more; only windows that are small beside the block gain.
#pragma once

#include "kernels/ladder/params.h"

namespace torch_conv::ladder {

template <int N>
__global__ void __launch_bounds__(1024)
    ladder3d_l2_halo(const Volumes volumes, const int kd, const int kh, const int kw,
                     const __grid_constant__ ConstantWindow<N> window) {
  extern __shared__ float tile[];
  const int bx = blockDim.x, by = blockDim.y, bz = blockDim.z;
  const int left = volumes.left(), top = volumes.top(), front = volumes.front();

  tile[(threadIdx.z * by + threadIdx.y) * bx + threadIdx.x] =
      volumes.read(front + threadIdx.z, top + threadIdx.y, left + threadIdx.x);
  __syncthreads();  // the whole block's tile is there

  float sum = 0.0f;
  for (int l = 0; l < kd; ++l)
    for (int i = 0; i < kh; ++i) {
      const int z = int(threadIdx.z) + l - kd / 2, y = int(threadIdx.y) + i - kh / 2;
      const bool row_here = unsigned(z) < unsigned(bz) && unsigned(y) < unsigned(by);
      for (int j = 0; j < kw; ++j) {
        const int x = int(threadIdx.x) + j - kw / 2;
        const bool here = row_here && unsigned(x) < unsigned(bx);
        const float voxel = here ? tile[(z * by + y) * bx + x] : volumes.read(front + z, top + y, left + x);
        sum = fmaf(window.tap[(l * kh + i) * kw + j], voxel, sum);
      }
    }
  volumes.write(front + threadIdx.z, top + threadIdx.y, left + threadIdx.x, sum);
}

}  // namespace torch_conv::ladder
