// Stores to an output whose dtype is known at run time only: one switch instead of seven kernel instances.
#pragma once

#include "core/cuda/device.cuh"
#include "core/problem.h"

namespace torch_conv {

template <typename A>
__device__ void store_as(const Image& out, int64_t offset, A value) {
  with_type(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    static_cast<T*>(out.data)[offset] = from_acc<T>(value);
  });
}

// Stores V consecutive elements, aligned to their size. The function stores nothing where the elements take more than
// 16 bytes.
template <int V, typename A>
__device__ void store_as(const Image& out, int64_t offset, const A (&value)[V]) {
  with_type(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (V * sizeof(T) <= 16) {
      Pack<V, T> pack;
#pragma unroll
      for (int v = 0; v < V; ++v) pack.v[v] = from_acc<T>(value[v]);
      T* const to = static_cast<T*>(out.data) + offset;
      if constexpr (sizeof(pack) >= 4) {
        store_pack_if(true, to, pack);
      } else {
#pragma unroll
        for (int v = 0; v < V; ++v) to[v] = pack.v[v];
      }
    }
  });
}

}  // namespace torch_conv
