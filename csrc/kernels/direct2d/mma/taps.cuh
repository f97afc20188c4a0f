// MMA: the scales of taps, and taps as parts of the image's dtype.
#pragma once

#include "core/cuda/round_pair.cuh"

namespace torch_conv::direct2d::mma {

// The exponent of the power of two that brings taps of float16 to 2^14. `largest`: the bits of the largest |tap|.
__device__ __forceinline__ int scale_exponent(unsigned largest) { return min(127 + 14 - int(largest >> 23), 126); }

__device__ __forceinline__ float power_of_two(int exponent) { return __uint_as_float(unsigned(127 + exponent) << 23); }

// Rounds two numbers to elements of T in one word, and subtracts these from the numbers.
template <typename T>
__device__ __forceinline__ unsigned take_part(float (&two)[2]) {
  const unsigned word = round_pair<T>(two[0], two[1]);
  T parts[2];
  memcpy(parts, &word, sizeof(parts));
  two[0] -= to_acc<float>(parts[0]);
  two[1] -= to_acc<float>(parts[1]);
  return word;
}

}  // namespace torch_conv::direct2d::mma
