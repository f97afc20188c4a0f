// STEP: one step of a generation over four channels a lane, widths 2 to 4.
//
//   state, `size` contiguous elements a channel          or interleaved channels (size 0), k - 1 elements
//     c0        c1        c2        c3                     c0 c1 c2 c3 . .
//     [s s s s] [s s s s] [s s s s] [s s s s]              [s  s  s  s] . .   oldest
//                                                          [s  s  s  s] . .
//   All of it is loaded as words before anything is used, moved on in registers, and stored as words.
//
// k reads and writes an output, 2 k flops.
#pragma once

#include "kernels/causal/shared/finish.cuh"
#include "kernels/causal/step/params.h"

namespace torch_conv::causal {

template <typename T, typename W, int K, bool silu, int size>
__global__ void __launch_bounds__(kStepThreads) causal_step(const __grid_constant__ UpdateArgs a) {
  constexpr int V = 4, kWords = V / kPerWord<T>;
  constexpr int kSize = size > 0 ? size : K - 1;  // elements of a channel
  const CausalUpdate& p = a.p;
  const unsigned n = a.across.divide(blockIdx.x);
  const int c = int(((blockIdx.x - n * a.across.divisor) * kStepThreads + threadIdx.x) * V);
  if (c >= p.c) return;
  T* out = at<T>(p.out, n, c, 0);
  const int64_t row = p.rows ? int64_t(p.rows[n]) : int64_t(n);
  unsigned now[kWords];
  load_words<4 * kWords>(at<const T>(p.x, n, c, 0), now);
  const ChannelTaps<W, V, K> window(p.weight, p.bias, c);
  const Pack<V, T> nothing{};
  if (row < 0 || row >= p.states) {
    store_pack_if(true, out, nothing);
    return;
  }
  // Element j of channel q is element q * kSize + j of the words, or j * V + q. Words are contiguous, or a step
  // apart.
  constexpr int kAll = kSize * kWords, kChunk = size > 0 && kAll % 4 == 0 ? 4 : kWords;
  T* state = at<T>(p.state, row, c, 0);
  const int64_t step = size > 0 ? kChunk * kPerWord<T> : p.state.stride_l;
  unsigned words[kAll];
#pragma unroll
  for (int i = 0; i < kAll / kChunk; ++i) load_words<4 * kChunk>(state + i * step, words + i * kChunk);

  float sums[V];
  T held[V * kSize], fresh[V], moved[V * kSize];
  memcpy(held, words, sizeof(held));
  memcpy(fresh, now, sizeof(fresh));
  const auto offset_of = [](int q, int j) { return size > 0 ? q * kSize + j : j * V + q; };
#pragma unroll
  for (int q = 0; q < V; ++q) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < K - 1; ++k)
      sum = fmaf(to_acc<float>(window.taps[q * K + k]), to_acc<float>(held[offset_of(q, kSize - (K - 1) + k)]), sum);
    sum = fmaf(to_acc<float>(window.taps[q * K + K - 1]), to_acc<float>(fresh[q]), sum);
    sums[q] = with_bias<T, silu>(sum, to_acc<float>(window.biases[q]));
#pragma unroll
    for (int j = 0; j < kSize; ++j) moved[offset_of(q, j)] = j + 1 < kSize ? held[offset_of(q, j + 1)] : fresh[q];
  }
  store_pack_if(true, out, rounded<T>(sums));
#pragma unroll
  for (int i = 0; i < kAll / kChunk; ++i) {
    Pack<kChunk * kPerWord<T>, T> pack;
    memcpy(&pack, moved + i * kChunk * kPerWord<T>, sizeof(pack));
    store_pack_if(true, state + i * step, pack);
  }
}

}  // namespace torch_conv::causal
