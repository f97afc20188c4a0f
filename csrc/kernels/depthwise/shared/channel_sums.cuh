// The sums of a thread that computes tx x ty outputs of some interleaved channels.
#pragma once

#include "core/activation.h"
#include "core/cuda/device.cuh"

namespace torch_conv::depthwise {

// Adds input row r, in the accumulation type, to all outputs over it. tap(i, j, v) is a tap of channel v. store(o, q,
// outputs) stores the channels of output q of row o, whose sums are complete.
template <auto s, typename T, Activation kind, typename A, int N, int V, typename Tap, typename Store>
__device__ __forceinline__ void add_channel_row(int r, const A (&value)[N][V], const A (&bias)[V],
                                                A (&sum)[s.ty][s.tx][V], const Tap& tap, const Store& store) {
#pragma unroll
  for (int o = 0; o < s.ty; ++o) {
    const int i = r - o * s.stride_y;  // this input row is row i of the window over output row o
    if (i < 0 || i >= s.kh) continue;
#pragma unroll
    for (int j = 0; j < s.kw; ++j)
#pragma unroll
      for (int q = 0; q < s.tx; ++q)
#pragma unroll
        for (int v = 0; v < V; ++v) sum[o][q][v] = fma(tap(i, j, v), value[q * s.stride_x + j][v], sum[o][q][v]);
    if (i < s.kh - 1) continue;
#pragma unroll
    for (int q = 0; q < s.tx; ++q) {
      Pack<V, T> outputs;
#pragma unroll
      for (int v = 0; v < V; ++v) outputs.v[v] = from_acc<T>(activated<kind>(sum[o][q][v] + bias[v]));
      store(o, q, outputs);
    }
  }
}

template <int V, typename T>
__device__ __forceinline__ void store_channels_if(bool condition, T* to, const Pack<V, T>& outputs) {
  if constexpr (sizeof(outputs) >= 4) store_pack_if(condition, to, outputs);
  else if (condition) *to = outputs.v[0];
}

}  // namespace torch_conv::depthwise
