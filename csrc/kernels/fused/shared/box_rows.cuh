// Rows of a box of the image in shared memory, as lanes read them.
#pragma once

#include "core/cuda/device.cuh"

namespace torch_conv::fused {

// A lane's row of the box: its columns and `halo` more on either side.
template <int N, int Halo, typename T>
__device__ __forceinline__ void read_row(const T* from, float (&row)[1][N + 2 * Halo]) {
  constexpr int kNeed = Halo > 4 ? 8 : Halo > 2 ? 4 : Halo;
  constexpr int kWord = 4 / sizeof(T), kLeast = kNeed > kWord ? kNeed : kWord;
  constexpr int kPack = kLeast < N ? kLeast : N;  // divides N
  constexpr int kSide = (Halo + kPack - 1) / kPack * kPack;
#pragma unroll
  for (int i = -kSide; i < N + kSide; i += (i >= 0 && i < N) ? N : kPack) {
    if (i == 0) {
      const auto pack = load_pack<N>(from);
#pragma unroll
      for (int e = 0; e < N; ++e) row[0][Halo + e] = to_acc<float>(pack.v[e]);
    } else {
      const auto pack = load_pack<kPack>(from + i);
#pragma unroll
      for (int e = 0; e < kPack; ++e)
        if (Halo + i + e >= 0 && i + e < N + Halo) row[0][Halo + i + e] = to_acc<float>(pack.v[e]);
    }
  }
}

}  // namespace torch_conv::fused
