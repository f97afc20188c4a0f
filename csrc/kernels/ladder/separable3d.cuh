// 3-D rung 5, separable3d: a window that is an outer product of three, as three 1-D passes.
//
//      in  -- x pass -->  out  -- y pass -->  scratch  -- z pass -->  out
//
//      h h o o o o o o h h      x pass: halo left and right only; the y pass has it above and below, the z pass
//      h h o o o o o o h h      before and behind. Rows, columns and depths outside the volume are 0 in every pass,
//      h h o o o o o o h h      because a filtered row of zeros is one.
//
// Per output voxel, block 8 x 8 x 8, K = 15:  asked of L1/L2  3 * 4 * (22 * 8 * 8) / 8^3 = 33 bytes instead of 83
//                                             from shared     3 * 4 K = 180 bytes instead of 13500
//                                             from DRAM       3 * (4 read + 4 written); L2 serves a small volume
//                                             arithmetic      3 * 2 K = 90 flops instead of 6750
//
// Against rung 3: each pass is rung 3 with a window that is 1 long on two axes, so tile, halo and constant memory are
// as they were; 75 times less work at K = 15. Bought with two intermediate volumes, which travel through memory: the
// result's own memory holds the first, so one scratch volume is enough. And not every window can be taken apart.
#pragma once

#include "kernels/ladder/tiled3d.cuh"

namespace torch_conv::ladder {

template <char kAxis, int N>  // 'x', 'y' or 'z'
__global__ void __launch_bounds__(1024)
    ladder3d_pass(const Volumes volumes, const int k, const __grid_constant__ ConstantWindow<N> window) {
  filter_tile(volumes, kAxis == 'z' ? k : 1, kAxis == 'y' ? k : 1, kAxis == 'x' ? k : 1, window);
}

}  // namespace torch_conv::ladder
