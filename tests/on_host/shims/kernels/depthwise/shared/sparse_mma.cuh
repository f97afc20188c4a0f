// The header of csrc in C++: fragments as the PTX ISA's "Matrix fragments for sparse mma.m16n8k32" has them, with the
// order of channels that the header names.
#pragma once

#include "core/cuda/mma.cuh"

namespace torch_conv::depthwise {

struct SparseFragments {
  float a[32][4][2], b[32][4][2];
};
inline SparseFragments sparse_fragments[32];  // of the warps of a block

template <typename T>
void sparse_mma(float (&to)[4], const float (&from)[4], const unsigned (&weight)[4], const unsigned (&pixels)[4]) {
  SparseFragments& all = sparse_fragments[threadIdx.x / 32];
  const int lane = threadIdx.x % 32;
  for (int r = 0; r < 4; ++r) widen_two<T>(weight[r], all.a[lane][r]), widen_two<T>(pixels[r], all.b[lane][r]);
  __syncwarp();
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + (i < 2 ? 0 : 8), column = lane % 4 * 2 + i % 2;
    float total = 0;
    for (int kept = 0; kept < 16; ++kept) {
      const int k = kept / 2 * 4 + kept % 2 * 2 + (row >= 8 ? 1 : 0);  // of the two that are kept of four
      const float left = all.a[row % 8 * 4 + kept % 8 / 2][(row >= 8 ? 1 : 0) + (kept >= 8 ? 2 : 0)][kept % 2];
      const float right = all.b[column * 4 + k % 8 / 2][k / 8][k % 2];
      total = added(total, left * right);
    }
    to[i] = added(from[i], total);
  }
  __syncwarp();
}

}  // namespace torch_conv::depthwise
