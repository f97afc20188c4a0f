// 3-D rung 2, constant3d: the naive kernel with its taps in constant memory.
//
//      in, K planes (global memory)            window (constant memory)
//      . a a a .  . b b b .  . c c c .         w w w  w w w  w w w
//      . a a a .  . b b b .  . c c c .    x    w w w  w w w  w w w     one read serves the whole warp
//      . a a a .  . b b b .  . c c c .         w w w  w w w  w w w
//
// Per output voxel, K x K x K window:  asked for  4 K^3 bytes of voxels, 4 bytes written
//                                      from DRAM  4 read + 4 written
//                                      arithmetic 2 K^3 flops (15 x 15 x 15: 6750)
//
// Against rung 1: half of the load instructions leave the path that the voxels take. What the third axis changes: 15 x
// 15 x 15 taps are 13500 bytes, more than the innermost constant cache of a multiprocessor holds, so taps
// come from the level behind it, in the order in which all warps walk through the window.
#pragma once

#include "kernels/ladder/params.h"

namespace torch_conv::ladder {

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
