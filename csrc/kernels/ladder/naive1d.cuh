// 1-D rung 1, naive1d: one thread per number, everything through pointers.
//
//      in    0 0 | 8 2 5 4 1 7 3 | 0 0      ghost cells, which hold 0, stand beside the signal
//                  \___f___/
//      out           . . y . . . .          K = 5: the thread at y reads five numbers and writes y; its right
//                                           neighbour reads four of the five again.
//
// Per number, K taps:  asked for  4 K bytes of numbers + 4 K bytes of taps, 4 bytes written
//                      from DRAM  4 read + 4 written, as long as caches catch the neighbours' overlap
//                      arithmetic 2 K flops
//
// Teaches: the mapping of numbers to threads (a warp reads neighbouring addresses), ghost cells as a test for each tap,
// and the price of a load: two load instructions for every multiply-add.
#pragma once

#include "kernels/ladder/params.h"

namespace torch_conv::ladder {

// Like ladder2d_naive: the taps come with the launch but are read through a generic pointer, as any array would be.
__global__ void __launch_bounds__(1024)
    ladder1d_naive(const Rows rows, const int k, const __grid_constant__ ConstantWindow<kMaxTaps> window) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const float* taps = window.pointer();

  float sum = 0.0f;
  for (int j = 0; j < k; ++j) sum = fmaf(taps[j], rows.read(x + j - k / 2), sum);
  rows.write(x, sum);
}

}  // namespace torch_conv::ladder
