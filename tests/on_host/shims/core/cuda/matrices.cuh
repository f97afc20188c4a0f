// ldmatrix and stmatrix as the PTX ISA has them.
#pragma once

#include "core/cuda/device.cuh"

namespace torch_conv {

inline const unsigned char* rows_of_lanes[32][32];  // of the warps of a block

template <int count>
void load_columns(unsigned (&to)[count], const unsigned char* row) {
  const auto& rows = rows_of_lanes[threadIdx.x / 32];
  const int lane = threadIdx.x % 32;
  rows_of_lanes[threadIdx.x / 32][lane] = row;
  __syncwarp();
  for (int i = 0; i < count; ++i) {
    // Whole fours, then a pair, then a single one.
    const int first = i < count / 4 * 4 ? i / 4 * 4 : i < count / 2 * 2 ? count / 4 * 4 : count - 1;
    for (int which = 0; which < 2; ++which) {
      const unsigned char* from = rows[(i - first) * 8 + lane % 4 * 2 + which] + first * 1024;
      if (reinterpret_cast<uintptr_t>(from) % 16) std::abort();
      memcpy(reinterpret_cast<char*>(&to[i]) + 2 * which, from + lane / 4 * 2, 2);
    }
  }
  __syncwarp();
}

inline void store_rows(unsigned char* row, unsigned first, unsigned second) {
  const int lane = threadIdx.x % 32;
  rows_of_lanes[threadIdx.x / 32][lane] = row;
  __syncwarp();
  const auto to = [&](int matrix) {
    return const_cast<unsigned char*>(rows_of_lanes[threadIdx.x / 32][8 * matrix + lane / 4]) + lane % 4 * 4;
  };
  memcpy(to(0), &first, 4), memcpy(to(1), &second, 4);
  __syncwarp();
}

}  // namespace torch_conv
