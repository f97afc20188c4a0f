// CHANNELS: channels are interleaved, widths 2 to 4. A lane takes 4 channels over S steps.
//
//                     channels 0-3   4-7  ...   lane 31
//     t0 - 3            o o o o      o o  ...              k - 1 steps of halo
//     t0 - 1            o o o o      o o  ...
//     t0                x x x x      x x  ...   x x x x
//     ...
//     t0 + S - 1        x x x x      x x  ...   x x x x
//
// The 4 warps of a block follow one another along L, so halos come from L1. All S + k - 1 loads precede the first
// multiply-add. (S + k - 1) / S reads an element, one from memory; 2 k flops an output. The last warp writes `after`.
#pragma once

#include "kernels/causal/channels/params.h"
#include "kernels/causal/shared/finish.cuh"

namespace torch_conv::causal {

// 64 registers for float32 and for selection, which need no more; a lower bound spills.
template <typename T, typename W, int K, bool silu, bool packed>
__global__ void __launch_bounds__(kChannelsWarps * 32, sizeof(T) == 4 ? 5
                                                       : packed       ? 7
                                                                      : 8)
    causal_channels(const __grid_constant__ ChannelsArgs a) {
  constexpr int V = kChannels, S = kSteps, kLoads = S + K - 1;
  constexpr int kWords = V / kPerWord<T>;
  const CausalConv& p = a.p;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned rest = a.across.divide(blockIdx.x), across = blockIdx.x - rest * a.across.divisor;
  const unsigned n = a.along.divide(rest), along = rest - n * a.along.divisor;
  const int length = int(p.l), begin = int(along * kChannelsWarps + warp) * S, c = int(across * 32 + lane) * V;
  if (begin >= length || c >= p.c) return;
  const T* x = start_of<const T>(p.x, a.x, n, c) + int64_t(begin - (K - 1)) * a.x.stride_l;
  T* out = start_of<T>(p.out, a.out, n, c) + int64_t(begin) * a.out.stride_l;

  unsigned v[kLoads][kWords];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int t = begin - (K - 1) + i;
#pragma unroll
    for (int h = 0; h < kWords; ++h) v[i][h] = 0;
    if (i < K - 1 ? begin > 0 : t < length) load_words<4 * kWords>(x + uint64_t(a.x.stride_l) * i, v[i]);
  }
  const ChannelTaps<W, V, K> window(p.weight, p.bias, c);
  if (begin == 0 && p.before.data) {
#pragma unroll
    for (int i = 0; i < K - 1; ++i) load_words<4 * kWords>(at<const T>(p.before, n, c, i), v[i]);
  }
  // If all steps at hand are of one sequence, no selection is needed.
  const int32_t* numbers = packed ? p.sequences + int64_t(n) * p.l : nullptr;
  const auto number = [&](int i) {
    const int t = begin - (K - 1) + i;
    return t >= 0 ? numbers[min(t, length - 1)] : -1;
  };
  bool mixes_sequences = false;
  if constexpr (packed) {
    const int first = number(0);
    mixes_sequences = first < 0;
#pragma unroll
    for (int i = 1; i < kLoads; ++i) mixes_sequences |= number(i) != first;
  }

  const auto compute = [&](auto selects) {
    int recent[K];  // the numbers of the steps under a window
    if constexpr (selects) {
#pragma unroll
      for (int k = 0; k < K - 1; ++k) recent[k + 1] = number(k);
    }
#pragma unroll
    for (int s = 0; s < S; ++s) {
      if constexpr (selects) {
#pragma unroll
        for (int k = 0; k < K - 1; ++k) recent[k] = recent[k + 1];
        asm volatile("" ::: "memory");  // read again: held since above they would take the registers of a block
        recent[K - 1] = number(s + K - 1);
      }
      float sums[V];
#pragma unroll
      for (int q = 0; q < V; ++q) {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < K; ++k) {
          float value = value_of<T>(v[s + k], q);
          if constexpr (selects) value = recent[k] == recent[K - 1] ? value : 0.f;
          sum = fmaf(to_acc<float>(window.taps[q * K + k]), value, sum);
        }
        sums[q] = with_bias<T, silu>(sum, to_acc<float>(window.biases[q]));
        if constexpr (selects) sums[q] = recent[K - 1] < 0 ? 0.f : sums[q];
      }
      store_pack_if(begin + s < length, out + uint64_t(a.out.stride_l) * s, rounded<T>(sums));
    }
  };
  if (packed && mixes_sequences) compute(std::integral_constant<bool, packed>{});
  else compute(std::false_type{});

  if (p.after.data && begin + S >= length) {
#pragma unroll 1
    for (int i = 0; i < (K - 1) * V; ++i)
      *at<T>(p.after, n, c + i % V, i / V) = element<T>(p, n, c + i % V, length - (K - 1) + i / V);
  }
}

}  // namespace torch_conv::causal
