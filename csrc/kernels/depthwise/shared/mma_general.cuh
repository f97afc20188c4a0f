// The general variants on tensor cores: pairs of pixels, and outputs as chains.
#pragma once

#include "core/activation.h"
#include "core/cuda/half_bits.cuh"

namespace torch_conv::depthwise {

// Two 16-bit elements of a word: numbers `at` and `at + 1` of `size`, with zeros outside.
__device__ __forceinline__ unsigned read_pair(const uint16_t* from, int at, int size) {
  const bool low = unsigned(at) < unsigned(size), high = unsigned(at + 1) < unsigned(size);
  if (low && high && reinterpret_cast<uintptr_t>(from + at) % 4 == 0)
    return *reinterpret_cast<const unsigned*>(from + at);
  return (low ? from[at] : 0u) | (high ? unsigned(from[at + 1]) << 16 : 0u);
}

// The bits of an output whose sum, with the bias, is `sum`. One call, because activations are long.
template <typename T>
__device__ __noinline__ unsigned output_bits(Activation activation, float sum) {
  return with_activation(activation, [&](auto kind) {
    const T output = from_acc<T>(activated<kind.value>(sum));
    uint16_t bits;
    memcpy(&bits, &output, sizeof(bits));
    return unsigned(bits);
  });
}

template <typename T>
__device__ __forceinline__ float bias_of(const Depthwise& p, int64_t c) {
  return p.bias ? to_acc<float>(static_cast<const T*>(p.bias)[c]) : 0.f;
}

// The sum of an output as a chain of multiply-adds, without the bias. For outputs that are not finite.
template <typename T>
__device__ __noinline__ float chain_sum(const Depthwise& p, int64_t n, int64_t c, int64_t y, int64_t x) {
  const T* weight = static_cast<const T*>(p.weight) + c * p.kh * p.kw;
  const T* plane = static_cast<const T*>(p.in.data) + n * p.in.stride_n + c / p.multiplier() * p.in.stride_c;
  float sum = 0;
#pragma unroll 1
  for (int64_t i = 0; i < p.kh; ++i)
#pragma unroll 1
    for (int64_t j = 0; j < p.kw; ++j) {
      const int64_t row = y + i - p.place.pad_y, column = x + j - p.place.pad_x;
      const bool inside = row >= 0 && row < p.in.h && column >= 0 && column < p.in.w;
      const float pixel = inside ? to_acc<float>(plane[row * p.in.stride_h + column * p.in.stride_w]) : 0.f;
      sum = fmaf(to_acc<float>(*weight++), pixel, sum);
    }
  return sum;
}

}  // namespace torch_conv::depthwise
