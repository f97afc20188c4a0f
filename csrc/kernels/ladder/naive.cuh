// Rung 1, naive (V1): one thread per output pixel; image and taps through pointers.
//
//        in                      out
//      . . . . . .            . . . . . .
//      . a b c . .            . . . . . .        K = 3: the thread at y reads a .. i
//      . d e f . .    --->    . . y . . .        and writes y; its right neighbour
//      . g h i . .            . . . . . .        reads b c, e f, h i again.
//
// Per output pixel, K x K window:  loads       4 K^2 bytes of pixels, 4 K^2 bytes of taps
//                                  DRAM        4 bytes read, 4 written, as long as caches hold the overlap
//                                  arithmetic  2 K^2 flops
//
// x runs fastest over threads, so that a warp reads neighbouring addresses. Two loads for every multiply-add: the load
// units set the pace, not the memory.
#pragma once

#include "kernels/ladder/params.h"

namespace torch_conv::ladder {

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

// Over signals: ghost cells beyond both ends of a row hold 0.
__global__ void __launch_bounds__(1024)
    ladder1d_naive(const Rows rows, const int k, const __grid_constant__ ConstantWindow<kMaxTaps> window) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const float* taps = window.pointer();

  float sum = 0.0f;
  for (int j = 0; j < k; ++j) sum = fmaf(taps[j], rows.read(x + j - k / 2), sum);
  rows.write(x, sum);
}

// Over volumes: 15 x 15 x 15 taps take 2 K^3 = 6750 flops a voxel, and 8 K^3 bytes of loads.
template <int N>
__global__ void __launch_bounds__(1024) ladder3d_naive(const Volumes volumes, const int kd, const int kh, const int kw,
                                                       const __grid_constant__ ConstantWindow<N> window) {
  const int x = volumes.left() + threadIdx.x, y = volumes.top() + threadIdx.y, z = volumes.front() + threadIdx.z;
  const float* tap = window.pointer();

  float sum = 0.0f;
  for (int l = 0; l < kd; ++l)
    for (int i = 0; i < kh; ++i)
      for (int j = 0; j < kw; ++j)
        sum = fmaf(*tap++, volumes.read(z + l - kd / 2, y + i - kh / 2, x + j - kw / 2), sum);
  volumes.write(z, y, x, sum);
}

}  // namespace torch_conv::ladder
