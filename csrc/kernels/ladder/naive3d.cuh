// 3-D rung 1, naive3d: one thread per voxel, everything through pointers.
//
//      in, three planes                       out
//      . . . . .  . . . . .  . . . . .        . . . . .
//      . a a a .  . b b b .  . c c c .        . . . . .      K = 3: the thread at z reads 9 a, 9 b and 9 c
//      . a a a .  . b b b .  . c c c .  --->  . . z . .      and writes z; its right neighbour reads 18 of
//      . a a a .  . b b b .  . c c c .        . . . . .      the 27 again.
//
// Per output voxel, K x K x K window:  asked for  4 K^3 bytes of voxels + 4 K^3 bytes of taps, 4 bytes written
//                                      from DRAM  4 read + 4 written, as long as caches catch the overlap
//                                      arithmetic 2 K^3 flops (15 x 15 x 15: 6750)
//
// Against the 2-D rung 1: the same mapping with one axis more, and the same two loads for every multiply-add, but the
// work grows with the cube of the window and a voxel's border test has three axes.
#pragma once

#include "kernels/ladder/params.h"

namespace torch_conv::ladder {

// Like ladder2d_naive: the taps come with the launch but are read through a generic pointer, as any array would be.
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
