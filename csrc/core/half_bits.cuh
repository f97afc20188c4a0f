// What the bits of a 16-bit number say.
#pragma once

#include "core/dtype.h"

namespace torch_conv {

// All of them set: infinite or NaN.
template <typename T>
constexpr unsigned kExponentBits = std::is_same_v<T, half_t> ? 0x7c00 : 0x7f80;

template <typename T>
__device__ __forceinline__ bool is_nan(unsigned bits) {
  return (bits & 0x7fff) > kExponentBits<T>;
}

template <typename T>
__device__ __forceinline__ bool is_finite(unsigned bits) {
  return (bits & kExponentBits<T>) != kExponentBits<T>;
}

}  // namespace torch_conv
