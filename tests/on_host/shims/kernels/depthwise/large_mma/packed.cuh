// The header of csrc, with ldmatrix as the PTX ISA has it.
#pragma once

#include "kernels/depthwise/shared/mma.cuh"

#define load_matrices load_matrices_by_ptx
#include_next "kernels/depthwise/large_mma/packed.cuh"
#undef load_matrices

namespace torch_conv::depthwise::large_mma {

inline void load_matrices(unsigned (&a)[4], unsigned address) {
  if (address % 16) std::abort();
  for (int i = 0; i < 4; ++i) {
    const unsigned row = __shfl_sync(~0u, address, 8 * i + threadIdx.x % 32 / 4);
    a[i] = read_word(row + threadIdx.x % 4 * 4);
  }
}

}  // namespace torch_conv::depthwise::large_mma
