// ROWS: the elements of a row are contiguous, widths 2 to 4.
//
// clang-format off
//             lane 0    lane 1         last      lane 0              A group of lanes has J vectors of 16 bytes a lane.
//   [h h h]  [v v v v] [v v v v] ...   [v v v v] [v v v v] ...       It loads all before the first multiply-add.
//      ^          \_____^ halo: the last k - 1 elements of the lane before, by shuffle
//      lane 0 loads the elements before the group's first
//
//   Rows that do not start on 16 bytes: vectors are aligned as in out. The first and last are not whole.
//       | . . . x x x x x | x x x x x x x x | x x . . . . . . |       |: 16 bytes
// clang-format on
//
// An element is read once and written once; 2 k flops an output. The group at a row's end writes the last k - 1 inputs.
#pragma once

#include "kernels/causal/rows/params.h"
#include "kernels/causal/shared/finish.cuh"

namespace torch_conv::causal {

// The vector at t of a row that is not whole: elements before the start or beyond the end are not the row's.
template <typename T, int V, bool by_word>
__device__ __forceinline__ void load_part(const RowsArgs& a, const T* x, unsigned n, unsigned c, int t,
                                          unsigned* words) {
  const int length = int(a.p.l);
  T elements[V] = {};
  const T* from = x + t;
  if (by_word && from >= a.p.x.data && from + V <= a.end) {
    load_words<16>(from, words);
    memcpy(elements, words, 16);
#pragma unroll
    for (int e = 0; e < V; ++e) elements[e] = t + e >= 0 && t + e < length ? elements[e] : zero<T>();
  } else {
#pragma unroll
    for (int e = 0; e < V; ++e)
      if (t + e >= 0 && t + e < length) elements[e] = from[e];
  }
  if (a.p.before.data && t < 0) {
    const int k = int(a.p.k);
#pragma unroll
    for (int e = 0; e < V; ++e)
      if (t + e < 0 && t + e + k >= 1) elements[e] = *at<const T>(a.p.before, n, c, t + e + k - 1);
  }
  memcpy(words, elements, 16);
}

// 12 blocks a multiprocessor: 40 registers.
template <typename T, typename W, int K, bool silu, Alignment alignment, int J>
__global__ void __launch_bounds__(kRowsWarps * 32, 12) causal_rows(const __grid_constant__ RowsArgs a) {
  constexpr int V = 16 / sizeof(T);
  constexpr int kWords = (K - 1 + kPerWord<T> - 1) / kPerWord<T>;  // of the halo
  constexpr int kHalo = kWords * kPerWord<T>;                      // their elements
  constexpr bool whole = alignment == Alignment::whole;
  const CausalConv& p = a.p;
  const int lanes = 1 << a.lanes_log2, lane = int(threadIdx.x) & (lanes - 1);
  const unsigned index = (blockIdx.x * (kRowsWarps * 32) + threadIdx.x) >> a.lanes_log2;
  const unsigned at_row = a.groups.divide(index), group = index - at_row * a.groups.divisor;
  const bool exists = at_row < a.rows;  // all lanes of a warp go on to the shuffles
  const unsigned row = exists ? at_row : 0;
  const unsigned n = a.channels.divide(row), c = row - n * a.channels.divisor;
  const T* x = start_of<const T>(p.x, a.x, n, c);
  T* out = start_of<T>(p.out, a.out, n, c);
  const int length = exists ? int(p.l) : 0;
  const int shift = whole ? 0 : int(reinterpret_cast<uint64_t>(out) / sizeof(T) % V);
  const int begin = (int(group) * J << a.lanes_log2) * V - shift;
  const auto position = [&](int j) { return begin + ((j << a.lanes_log2) + lane) * V; };
  const auto inside = [&](int t) { return whole ? t < length : t >= 0 && t + V <= length; };

  unsigned v[J][4];
#pragma unroll
  for (int j = 0; j < J; ++j) {
#pragma unroll
    for (int h = 0; h < 4; ++h) v[j][h] = 0;
    if (alignment != Alignment::apart && inside(position(j))) load_words<16>(x + position(j), v[j]);
  }
  float tap[K];
#pragma unroll
  for (int k = 0; k < K; ++k) tap[k] = to_acc<float>(static_cast<const W*>(p.weight)[c * K + k]);
  const float bias = p.bias ? to_acc<float>(static_cast<const W*>(p.bias)[c]) : 0.f;
  unsigned edge[kWords] = {};
  if (alignment != Alignment::apart && lane == 0 && begin >= kHalo && begin < length)
    load_words<kWords * 4>(x + begin - kHalo, edge);
  if constexpr (!whole) {
#pragma unroll
    for (int j = 0; j < J; ++j)
      if ((alignment == Alignment::apart || !inside(position(j))) && position(j) < length)
        load_part<T, V, alignment == Alignment::alike>(a, x, n, c, position(j), v[j]);
  }
  if (lane == 0 && (whole ? begin == 0 && p.before.data : alignment == Alignment::apart || begin < kHalo)) {
    T elements[kHalo];
#pragma unroll
    for (int e = 0; e < kHalo; ++e) {
      const int t = begin - kHalo + e;
      if (whole) elements[e] = e < kHalo - (K - 1) ? zero<T>() : *at<const T>(p.before, n, c, e - kHalo + K - 1);
      else elements[e] = t < length ? element<T>(p, n, c, t) : zero<T>();
    }
    memcpy(edge, elements, sizeof(edge));
  }

#pragma unroll
  for (int j = 0; j < J; ++j) {
    unsigned words[kWords + 4];
#pragma unroll
    for (int h = 0; h < kWords; ++h) {
      const unsigned own = v[j][4 - kWords + h];
      const unsigned sent = j > 0 && lane == lanes - 1 ? v[j > 0 ? j - 1 : 0][4 - kWords + h] : own;
      const unsigned received = __shfl_sync(~0u, sent, (lane + lanes - 1) & (lanes - 1), lanes);
      words[h] = j == 0 && lane == 0 ? edge[h] : received;
    }
#pragma unroll
    for (int h = 0; h < 4; ++h) words[kWords + h] = v[j][h];
    float sums[V];
#pragma unroll
    for (int e = 0; e < V; ++e) {
      float sum = 0;
#pragma unroll
      for (int k = 0; k < K; ++k) sum = fmaf(tap[k], value_of<T>(words, kHalo - (K - 1) + e + k), sum);
      sums[e] = with_bias<T, silu>(sum, bias);
    }
    const auto result = rounded<T>(sums);
    const int t = position(j);
    store_pack_if(inside(t), out + t, result);
    if (!whole && !inside(t)) {
#pragma unroll
      for (int e = 0; e < V; ++e)
        if (t + e >= 0 && t + e < length) out[t + e] = result.v[e];
    }
  }
  if (p.after.data && exists && group == a.groups.divisor - 1) {
    for (int i = lane; i < K - 1; i += lanes) *at<T>(p.after, n, c, i) = element<T>(p, n, c, length - (K - 1) + i);
  }
}

}  // namespace torch_conv::causal
