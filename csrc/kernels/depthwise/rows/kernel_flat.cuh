// ROWS without gaps, as one long row: a lane computes 16 bytes that may end one row and begin the next.
//
// clang-format off
//       input        xxxxxxxxxxxxxxx|yyyyyyyyyyyyy|zzzzz        rows x, y, z of a tensor that has no gaps
//       16 bytes   |       |       |       |       |
//                         <--- span --->                        footprint of V outputs
//       output             |o o o|o|                            one aligned store
//                           sums of x's taps over x, of y's over y
// clang-format on
//
// A lane with outputs of one row makes V sums. A lane with outputs of two rows makes V sums of each. These sums take a
// copy of the values in which the other row is zeros. Then the lane selects the sum of each output's row. If one lane
// of a warp has two rows, all lanes do so. No row is shorter than a vector.
//
// Device memory an output: 1 read, 1 write, all of it aligned; 2 K flops, 4 K at the ends of rows.
#pragma once

#include "core/activation.h"
#include "kernels/depthwise/rows/params.h"
#include "kernels/depthwise/shared/packed.cuh"

namespace torch_conv::depthwise {

template <typename T, typename W, int K, int kShift, Activation kind>
__global__ void __launch_bounds__(128) depthwise_rows_flat(const __grid_constant__ RowsArgs a) {
  using A = acc_t<T>;
  constexpr int V = 16 / int(sizeof(T));
  constexpr int kLoads = (kShift + V + K - 1 + V - 1) / V;

  const uint32_t lane = blockIdx.x * 128 + threadIdx.x;
  if (lane >= a.lanes) return;
  const uint32_t flat = lane * V;
  const uint32_t row = a.slots.divide(flat);
  const int x = int(flat - row * a.slots.divisor);
  const uint32_t n = a.channels.divide(row), c = row - n * a.channels.divisor;
  const uint32_t c_next = c + 1 == a.channels.divisor ? 0 : c + 1;

  const int64_t from = int64_t(flat) - a.pad - kShift;
  const T* const in = static_cast<const T*>(a.in) + from;
  uint32_t words[4 * kLoads];
  const bool readable = from >= 0 && from + kLoads * V <= a.last;
#pragma unroll
  for (int b = 0; b < kLoads; ++b) {
    const uint4 word = readable ? *reinterpret_cast<const uint4*>(in + b * V) : uint4{};
    words[4 * b] = word.x, words[4 * b + 1] = word.y, words[4 * b + 2] = word.z, words[4 * b + 3] = word.w;
  }
  const W* const weight = static_cast<const W*>(a.weight);
  A taps[K], sum[V] = {};
#pragma unroll
  for (int i = 0; i < K; ++i) taps[i] = to_acc<A>(weight[int64_t(c) * K + i]);
  A bias = a.bias ? to_acc<A>(static_cast<const W*>(a.bias)[c]) : A(0);
  if (!readable) {
    const int64_t before = -from, behind = a.last - from;
    const int low = before > 0 ? int(before) : 0, high = behind < kLoads * V ? int(behind) : kLoads * V;
    packed::read_elements<T>(words, in + low, -low, high - low);
  }

  const int first = x - a.pad - kShift;  // position of the first element of `words` in its row
  const bool one_row = first + kShift >= 0 && x + V + K - 1 - a.pad <= a.out_w;
  if (__all_sync(__activemask(), one_row)) {
#pragma unroll
    for (int i = 0; i < K; ++i)
#pragma unroll
      for (int e = 0; e < V; ++e) sum[e] = fma(taps[i], packed::element<T>(words, kShift + e + i), sum[e]);
#pragma unroll
    for (int e = 0; e < V; ++e) sum[e] += bias;
  } else {
    A next[V] = {}, taps_next[K];
#pragma unroll
    for (int i = 0; i < K; ++i) taps_next[i] = to_acc<A>(weight[int64_t(c_next) * K + i]);
    const A bias_next = a.bias ? to_acc<A>(static_cast<const W*>(a.bias)[c_next]) : A(0);
    A value[V + K - 1], value_next[V + K - 1];
#pragma unroll
    for (int i = 0; i < V + K - 1; ++i) {
      const A v = packed::element<T>(words, kShift + i);
      const int at = first + kShift + i;
      value[i] = unsigned(at) < unsigned(a.out_w) ? v : A(0);
      value_next[i] = unsigned(at - a.out_w) < unsigned(a.out_w) ? v : A(0);
    }
#pragma unroll
    for (int i = 0; i < K; ++i)
#pragma unroll
      for (int e = 0; e < V; ++e) {
        sum[e] = fma(taps[i], value[e + i], sum[e]);
        next[e] = fma(taps_next[i], value_next[e + i], next[e]);
      }
#pragma unroll
    for (int e = 0; e < V; ++e) sum[e] = x + e < a.out_w ? sum[e] + bias : next[e] + bias_next;
  }

#pragma unroll
  for (int e = 0; e < V; ++e) sum[e] = activated<kind>(sum[e]);
  const auto pack = packed::round_all<T>(sum);
  T* const to = static_cast<T*>(a.out) + flat;
  const bool is_full = flat + V <= a.last;
  store_pack_if(is_full, to, pack);
  if (!is_full) {
#pragma unroll
    for (int e = 0; e < V; ++e)
      if (flat + e < a.last) to[e] = pack.v[e];
  }
}

}  // namespace torch_conv::depthwise
