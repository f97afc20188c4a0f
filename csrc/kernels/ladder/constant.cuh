// Rung 2, constant: the naive kernel with its taps in constant memory.
//
//      in (global memory)       window (constant memory)
//      . a b c . .              +-------+
//      . d e f . .       x      | w w w |  one read serves the whole warp: all 32 threads
//      . g h i . .              | w w w |  want the same tap at the same time
//                               +-------+
//
// Against rung 1: half of the load instructions leave the path of the pixels. The constant cache serves one address a
// warp at a time. Pixels, 32 addresses a warp, would be 32 times slower there.
#pragma once

#include "kernels/ladder/params.h"

namespace torch_conv::ladder {

__global__ void ladder2d_constant(const Planes planes, const int k,
                                  const __grid_constant__ ConstantWindow<kMaxTaps> window) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  const int radius = k / 2;

  float sum = 0.0f;
  for (int i = 0; i < k; ++i)
    for (int j = 0; j < k; ++j) sum = fmaf(window.tap[i * k + j], planes.read(y + i - radius, x + j - radius), sum);
  planes.write(y, x, sum);
}

// Over signals.
__global__ void __launch_bounds__(1024)
    ladder1d_constant(const Rows rows, const int k, const __grid_constant__ ConstantWindow<kMaxTaps> window) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;

  float sum = 0.0f;
  for (int j = 0; j < k; ++j) sum = fmaf(window.tap[j], rows.read(x + j - k / 2), sum);
  rows.write(x, sum);
}

// Over volumes: a window of 15 x 15 x 15 taps takes 13500 bytes, more than a multiprocessor's innermost constant cache
// holds. Taps come from the next level, in loop order.
template <int N>
__global__ void __launch_bounds__(1024)
    ladder3d_constant(const Volumes volumes, const int kd, const int kh, const int kw,
                      const __grid_constant__ ConstantWindow<N> window) {
  const int x = volumes.left() + threadIdx.x, y = volumes.top() + threadIdx.y, z = volumes.front() + threadIdx.z;

  float sum = 0.0f;
  for (int l = 0; l < kd; ++l)
    for (int i = 0; i < kh; ++i)
      for (int j = 0; j < kw; ++j)
        sum =
            fmaf(window.tap[(l * kh + i) * kw + j], volumes.read(z + l - kd / 2, y + i - kh / 2, x + j - kw / 2), sum);
  volumes.write(z, y, x, sum);
}

}  // namespace torch_conv::ladder
