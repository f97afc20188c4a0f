// Moves matrices of 8 rows of 16 bytes between shared memory and the registers of a warp. Compute capability 9.0 on.
#pragma once

#include "core/cuda/device.cuh"
#include "core/cuda/unroll.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

namespace torch_conv {

// Loads `count` matrices, 1024 bytes apart, transposed: lane l gets rows l % 4 * 2 and the next of column l / 4, 16
// bits each. `row` of lane l is row l % 8 of matrix l / 8, of the first four matrices.
template <int count>
__device__ __forceinline__ void load_columns(unsigned (&to)[count], const unsigned char* row) {
  const unsigned address = shared_address(row);
  unroll<0, count / 4 * 4, 4>([&](auto i) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[i]), "=r"(to[i + 1]), "=r"(to[i + 2]), "=r"(to[i + 3])
                 : "r"(address + i * 1024));
  });
  if constexpr (count % 4 >= 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(to[count / 4 * 4]), "=r"(to[count / 4 * 4 + 1])
                 : "r"(address + count / 4 * 4096));
  if constexpr (count % 2 == 1)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(to[count - 1])
                 : "r"(address + (count - 1) * 1024));
}

// Stores two matrices in the layout of mma results: lane l has columns 2 * (l % 4) and the next of row l / 4 of each.
// `row` of lane l < 16 is row l % 8 of matrix l / 8.
__device__ __forceinline__ void store_rows(unsigned char* row, unsigned first, unsigned second) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(shared_address(row)), "r"(first),
               "r"(second)
               : "memory");
}

}  // namespace torch_conv

#endif
