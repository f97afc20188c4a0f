// The header of csrc in C++.
#pragma once

#include "core/cuda/device.cuh"

namespace torch_conv {

template <typename T>
constexpr int kPerWord = 4 / int(sizeof(T));

template <typename T>
void widen(unsigned word, float* to) {
  T elements[kPerWord<T>];
  memcpy(elements, &word, 4);
  for (int i = 0; i < kPerWord<T>; ++i) to[i] = to_acc<float>(elements[i]);
}

template <typename T>
float widen_one(T x) {
  return to_acc<float>(x);
}

template <int N, typename T>
void widen_pack(const T* from, float* to) {
  for (int i = 0; i < N; ++i) to[i] = to_acc<float>(from[i]);
}

template <typename O, int N>
Pack<N, O> narrow_pack(const float (&from)[N]) {
  Pack<N, O> pack;
  for (int i = 0; i < N; ++i) pack.v[i] = from_acc<O>(from[i]);
  return pack;
}

}  // namespace torch_conv
