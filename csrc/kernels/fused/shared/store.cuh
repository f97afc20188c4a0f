// Rows of results into the output.
#pragma once

#include "core/cuda/device.cuh"

namespace torch_conv::fused {

// A lane's N neighbouring results as whole words, rounded.
template <int N, typename O>
__device__ __forceinline__ void store_row_if(bool condition, O* to, const float (&row)[N]) {
  constexpr int M = N * sizeof(O) > 16 ? 16 / sizeof(O) : N;
#pragma unroll
  for (int i = 0; i < N; i += M) {
    Pack<M, O> v;
#pragma unroll
    for (int e = 0; e < M; ++e) v.v[e] = from_acc<O>(row[i + e]);
    if constexpr (sizeof(v) >= 8) store_pack_if(condition, to + i, v);
    else if (condition) *reinterpret_cast<Pack<M, O>*>(to + i) = v;
  }
}

// Stores element i if first + i is in [0, count), one by one.
template <int N, typename O>
__device__ __forceinline__ void store_elements_if(bool condition, O* to, const float (&row)[N], int first, int count) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (condition && first + i >= 0 && first + i < count) to[i] = from_acc<O>(row[i]);
}

}  // namespace torch_conv::fused
