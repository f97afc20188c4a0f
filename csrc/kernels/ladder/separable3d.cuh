// 3-D rung 5, separable3d: a window that is an outer product of three, as three 1-D passes.
//
//      in  -- x pass -->  out  -- y pass -->  scratch  -- z pass -->  out
//
//      h h o o o o o o h h      x pass: halo left and right; y pass: above and below; z pass: before and behind.
//      h h o o o o o o h h      Rows, columns and depths outside the volume are 0 in every pass: a filtered row of
//      h h o o o o o o h h      zeros is zero.
//
// Per output voxel, block 8 x 8 x 8, K = 15:  global loads  3 * 4 * (22 * 8 * 8) / 8^3 = 33 bytes instead of 83
//                                             shared loads  3 * 4 K = 180 bytes instead of 13500
//                                             DRAM          3 * (4 read + 4 written); L2 serves a small volume
//                                             arithmetic    3 * 2 K = 90 flops instead of 6750
//
// Against rung 3: each pass is rung 3 with a window of length 1 on two axes. The price is two intermediate volumes in
// memory. The result holds the first, so that one scratch volume is enough.
#pragma once

#include "kernels/ladder/tiled.cuh"

namespace torch_conv::ladder {

template <char kAxis, int N>  // 'x', 'y' or 'z'
__global__ void __launch_bounds__(1024)
    ladder3d_pass(const Volumes volumes, const int k, const __grid_constant__ ConstantWindow<N> window) {
  filter_tile(volumes, kAxis == 'z' ? k : 1, kAxis == 'y' ? k : 1, kAxis == 'x' ? k : 1, window);
}

}  // namespace torch_conv::ladder
