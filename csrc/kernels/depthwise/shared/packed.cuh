// ROWS and WARPS: elements of rows, packed in words of 32 bits.
#pragma once

#include "core/cuda/device.cuh"
#include "core/cuda/round_pair.cuh"

namespace torch_conv::depthwise {

namespace packed {

// Element i of contiguous words.
template <typename T>
__device__ __forceinline__ acc_t<T> element(const uint32_t* words, int i) {
  if constexpr (sizeof(T) == 8) {
    double value;
    memcpy(&value, words + 2 * i, 8);
    return value;
  } else if constexpr (sizeof(T) == 4) {
    return __uint_as_float(words[i]);
  } else if constexpr (std::is_same_v<T, bhalf_t>) {
    return __uint_as_float(i % 2 ? words[i / 2] & 0xffff0000 : words[i / 2] << 16);
  } else {
    return to_acc<float>(T{uint16_t(i % 2 ? words[i / 2] >> 16 : words[i / 2])});
  }
}

// Clears elements outside a row of `size` elements. The words begin at position `at` of the row.
template <typename T, int kWords>
__device__ __forceinline__ void mask(uint32_t (&words)[kWords], int at, int size) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    if constexpr (sizeof(T) == 2) {
      const uint32_t low = unsigned(at + 2 * i) < unsigned(size) ? 0xffffu : 0;
      const uint32_t high = unsigned(at + 2 * i + 1) < unsigned(size) ? 0xffff0000u : 0;
      words[i] &= low | high;
    } else {
      constexpr int kWordsEach = sizeof(T) / 4;
      words[i] = unsigned(at + i / kWordsEach) < unsigned(size) ? words[i] : 0;
    }
  }
}

// Reads the elements inside a row one by one, where vectors would cross the end of the tensor's memory.
template <typename T, int kWords>
__device__ __forceinline__ void read_elements(uint32_t (&words)[kWords], const T* row, int at, int size) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    if constexpr (sizeof(T) == 2) {
      const int p = at + 2 * i;
      const uint32_t low = unsigned(p) < unsigned(size) ? row[p].bits : 0;
      const uint32_t high = unsigned(p + 1) < unsigned(size) ? row[p + 1].bits : 0;
      words[i] = low | high << 16;
    } else {
      constexpr int kWordsEach = sizeof(T) / 4;
      const int p = at + i / kWordsEach;
      words[i] = unsigned(p) < unsigned(size) ? reinterpret_cast<const uint32_t*>(row + p)[i % kWordsEach] : 0;
    }
  }
}

// Shifts the words down by `elements`, which are fewer than 16 bytes.
template <typename T, int kWords>
__device__ __forceinline__ void funnel(uint32_t (&words)[kWords], int elements) {
  int by = elements;  // in words, below
  if constexpr (sizeof(T) == 2) {
    const int bits = elements % 2 * 16;
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = __funnelshift_r(words[i], i + 1 < kWords ? words[i + 1] : 0, bits);
    by = elements / 2;
  } else if constexpr (sizeof(T) == 8) {
    by = elements * 2;
  }
#pragma unroll
  for (int step = 1; step < 4; step *= 2) {
    const bool moves = by & step;
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = moves ? (i + step < kWords ? words[i + step] : 0) : words[i];
  }
}

// Rounds V sums to 16 bytes.
template <typename T, int V>
__device__ __forceinline__ Pack<V, T> round_all(const acc_t<T> (&sum)[V]) {
  Pack<V, T> pack;
  if constexpr (sizeof(T) == 2) {
    uint32_t words[V / 2];
#pragma unroll
    for (int i = 0; i < V / 2; ++i) words[i] = round_pair<T>(sum[2 * i], sum[2 * i + 1]);
    memcpy(&pack, words, sizeof(pack));
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) pack.v[i] = sum[i];
  }
  return pack;
}

// Calls f(std::integral_constant<int, value>) for a run-time value in [low, high).
template <int low, int high, typename F>
__device__ __forceinline__ void with_constant(int value, const F& f) {
  if constexpr (high - low == 1) {
    f(std::integral_constant<int, low>{});
  } else {
    constexpr int kMiddle = (low + high) / 2;
    if (value < kMiddle) with_constant<low, kMiddle>(value, f);
    else with_constant<kMiddle, high>(value, f);
  }
}

}  // namespace packed

}  // namespace torch_conv::depthwise
