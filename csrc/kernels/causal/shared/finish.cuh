// Device code that the kernels of this family share: vectors as words, rounding of sums, elements before the start.
#pragma once

#include "core/activation.h"
#include "core/cuda/device.cuh"
#include "core/cuda/round_pair.cuh"
#include "kernels/causal/shared/params.h"

namespace torch_conv::causal {

template <typename T>
constexpr int kPerWord = 4 / sizeof(T);  // elements of a 32-bit word

// Element e of words, as float32.
template <typename T>
__device__ __forceinline__ float value_of(const unsigned* words, int e) {
  if constexpr (sizeof(T) == 4) {
    return __uint_as_float(words[e]);
  } else if constexpr (std::is_same_v<T, bhalf_t>) {
    return __uint_as_float(e % 2 ? words[e / 2] & 0xffff0000u : words[e / 2] << 16);
  } else {
    const T half{uint16_t(e % 2 ? words[e / 2] >> 16 : words[e / 2])};
    return to_acc<float>(half);
  }
}

// The windows and biases of V channels from c on, where those are contiguous and aligned to 8 bytes.
template <typename W, int V, int K>
struct ChannelTaps {
  W taps[V * K], biases[V] = {};

  __device__ __forceinline__ ChannelTaps(const void* weight, const void* bias, int c) {
    constexpr int kAtOnce = 8 / sizeof(W);
#pragma unroll
    for (int i = 0; i < V * K; i += kAtOnce) {
      const auto word = load_pack<kAtOnce>(static_cast<const W*>(weight) + unsigned(c) * K + i);
      memcpy(taps + i, &word, 8);
    }
    if (bias) {
#pragma unroll
      for (int i = 0; i < V; i += kAtOnce) {
        const auto word = load_pack<kAtOnce>(static_cast<const W*>(bias) + c + i);
        memcpy(biases + i, &word, 8);
      }
    }
  }
};

// N sums, rounded, as words: 16-bit ones in pairs by one instruction.
template <typename T, int N>
__device__ __forceinline__ Pack<N, T> rounded(const float (&sums)[N]) {
  unsigned words[N / kPerWord<T>];
#pragma unroll
  for (int i = 0; i < N / kPerWord<T>; ++i) {
    if constexpr (sizeof(T) == 4) words[i] = __float_as_uint(sums[i]);
    else words[i] = round_pair<T>(sums[2 * i], sums[2 * i + 1]);
  }
  Pack<N, T> pack;
  memcpy(&pack, words, sizeof(pack));
  return pack;
}

// `Bytes` (4, 8, 12 or 16) from an address that they divide, 12 from one that 4 divides.
template <int Bytes>
__device__ __forceinline__ void load_words(const void* from, unsigned* words) {
  if constexpr (Bytes == 12) {
#pragma unroll
    for (int i = 0; i < 3; ++i) words[i] = static_cast<const unsigned*>(from)[i];
  } else {
    const auto word = *static_cast<const typename VectorOf<Bytes>::type*>(from);
    memcpy(words, &word, Bytes);
  }
}

// v / (1 + exp(-v)). 16-bit outputs use the approximate instructions. Their error of 2 units in the last place of
// float32 vanishes in the rounding; below 0 they end at 1e-36. The exact ones are 30 instructions an output, which take
// longer than memory.
template <typename T, typename A>
__device__ __forceinline__ A silu_of(A v) {
  if constexpr (sizeof(T) == 2) {
    float e, r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(v * -1.44269504088896340736f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.f + e));
    return v * r;
  } else {
    return activated<Activation::silu>(v);
  }
}

template <typename T, bool silu, typename A>
__device__ __forceinline__ A with_bias(A sum, A bias) {
  return silu ? silu_of<T>(sum + bias) : sum + bias;
}

template <typename T>
__device__ __forceinline__ T zero() {
  return from_acc<T>(acc_t<T>(0));
}

template <typename T>
__device__ __forceinline__ T* at(const Signal& s, int64_t n, int64_t c, int64_t t) {
  return static_cast<T*>(s.data) + n * s.stride_n + c * s.stride_c + t * s.stride_l;
}

// The start of a channel's first element.
template <typename T>
__device__ __forceinline__ T* start_of(const Signal& s, const Starts& by, unsigned n, unsigned c) {
  return static_cast<T*>(s.data) + uint64_t(n) * by.stride_n + uint64_t(c) * by.stride_c;
}

// Element t of a sequence, which may be before its start (t >= -(k - 1); further back there is nothing).
template <typename T>
__device__ __forceinline__ T element(const CausalConv& p, int64_t n, int64_t c, int64_t t) {
  if (t >= 0) return *at<const T>(p.x, n, c, t);
  return p.before.data && t + p.k >= 1 ? *at<const T>(p.before, n, c, t + p.k - 1) : zero<T>();
}

}  // namespace torch_conv::causal
