// Rung 4, l2_halo: shared memory holds only the tile; halo pixels come from the caches.
//
//      . . . . . . . .      o  tile: one pixel per thread, one load each, in shared memory
//      . o o o o o o .      .  halo: read from global memory. The neighbouring block loads
//      . o o o o o o .         these pixels for its own tile at about the same time, so that
//      . o o o o o o .         they come from L2 (or L1), seldom from DRAM
//      . . . . . . . .
//
// Per output pixel, BX x BY = 32 x 16, K = 5:  tile loads    4 bytes (the tile is exactly the block)
//                                              cache loads   11 bytes (11 % of the taps fall in the halo)
//                                              shared loads  89 bytes
//
// Against rung 3: input and output tile have the same size, so that loading needs no loop and no thread idles. The
// price is a test for every tap, on which warps at the rim of the block diverge.
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

// Over signals. Per number, N = 256 threads, K = 5: cache loads 0.1 bytes, as 6 of 1280 taps fall in the halo. Only the
// first and the last warps of a block diverge.
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

// Over volumes. Per output voxel, block 8 x 8 x 8, K = 15: cache loads 11450 bytes, as 85 % of the taps fall in the
// halo; shared loads 2050 bytes. Shared memory holds 2 KB instead of 42: more blocks fit, and no window is too large.
// Windows that are small against the block alone are faster than rung 2.
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
