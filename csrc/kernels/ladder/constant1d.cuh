// 1-D rung 2, constant1d: the naive kernel with its taps in constant memory.
//
//      in (global memory)         window (constant memory)
//      . a b c d e . .       x    w w w w w     one read serves the whole warp: all 32 threads want the same tap
//
// Per number, K taps:  asked for  4 K bytes of numbers, 4 bytes written
//                      from DRAM  4 read + 4 written
//                      arithmetic 2 K flops
//
// Against rung 1: half of the load instructions leave the path that the numbers take.
#pragma once

#include "kernels/ladder/params.h"

namespace torch_conv::ladder {

__global__ void __launch_bounds__(1024)
    ladder1d_constant(const Rows rows, const int k, const __grid_constant__ ConstantWindow<kMaxTaps> window) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;

  float sum = 0.0f;
  for (int j = 0; j < k; ++j) sum = fmaf(window.tap[j], rows.read(x + j - k / 2), sum);
  rows.write(x, sum);
}

}  // namespace torch_conv::ladder
