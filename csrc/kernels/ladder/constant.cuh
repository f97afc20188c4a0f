// Rung 2, constant: the naive kernel with its taps in constant memory.
//
//      in (global memory)       window (constant memory)
//      . a b c . .              +-------+
//      . d e f . .       x      | w w w |  one read serves the whole warp: all 32 threads
//      . g h i . .              | w w w |  want the same tap at the same time
//                               +-------+
//
// Per output pixel:  asked for  4 K^2 bytes of pixels, 4 bytes written
//                    from DRAM  4 read + 4 written
//                    arithmetic 2 K^2 flops
//
// Against rung 1: half of the load instructions leave the path that the pixels take. The constant cache is right
// for taps because a warp reads one address at a time; for pixels, 32 addresses a warp, it would be 32 times slower.
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

}  // namespace torch_conv::ladder
