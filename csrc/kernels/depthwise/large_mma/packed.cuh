// LARGE_MMA: loads from shared memory and stores to device memory of words of two 16-bit elements.
#pragma once

#include "core/cuda/device.cuh"

namespace torch_conv::depthwise::large_mma {

__device__ __forceinline__ void load_matrices(unsigned (&a)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(address)
               : "memory");
}

// Transposes the words of a quad of lanes: each lane has a word of every block, and then lane q has all four words of
// block q. With two blocks, lane q has half of block q % 2.
template <int N>
__device__ __forceinline__ void transpose(unsigned (&v)[N], int q) {
#pragma unroll
  for (int t = 0; t + 1 < N; t += 2) {
    const unsigned got = __shfl_xor_sync(~0u, q & 1 ? v[t] : v[t + 1], 1);
    if (q & 1) v[t] = got;
    else v[t + 1] = got;
  }
  if constexpr (N == 4) {
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      const unsigned got = __shfl_xor_sync(~0u, q & 2 ? v[t] : v[t + 2], 2);
      if (q & 2) v[t] = got;
      else v[t + 2] = got;
    }
  }
}

// Stores all of 2 N outputs.
template <int N>
__device__ __forceinline__ void store(void* to, const unsigned (&v)[N]) {
  typename VectorOf<4 * N>::type vector;
  memcpy(&vector, v, sizeof(vector));
  *static_cast<decltype(vector)*>(to) = vector;
}

// Stores the first `inside` of 2 N outputs, by vectors of `bytes` where these are inside.
template <typename T, int N>
__device__ __forceinline__ void store_inside(T* to, const unsigned (&v)[N], int inside, int bytes) {
#pragma unroll
  for (int i = 0; i < N; i += 2) {
    if (N > 1 && bytes >= 8 && inside >= 2 * i + 4) {
      store(to + 2 * i, {v[i], v[(i + 1) % N]});
      continue;
    }
#pragma unroll
    for (int w = i; w < i + 2 && w < N; ++w) {
      if (bytes >= 4 && inside >= 2 * w + 2) {
        store(to + 2 * w, {v[w]});
      } else {
        if (inside > 2 * w) to[2 * w] = T{uint16_t(v[w])};
        if (inside > 2 * w + 1) to[2 * w + 1] = T{uint16_t(v[w] >> 16)};
      }
    }
  }
}

}  // namespace torch_conv::depthwise::large_mma
