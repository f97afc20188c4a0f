// Interleaved channels in words of 4 bytes: extracts the numbers of one channel, and interleaves channels again.
#pragma once

#include "core/cuda/device.cuh"

namespace torch_conv {

// The 16-bit numbers a and b of `words`, as one word.
template <int a, int b, int count>
__device__ __forceinline__ unsigned two_halves(const unsigned (&words)[count]) {
  return __byte_perm(words[a / 2], words[b / 2], (a % 2 ? 0x32 : 0x10) | (b % 2 ? 0x7600 : 0x5400));
}

// Elements i, i + channels, i + 2 * channels ... of `words`, of `size` bytes, as one word.
template <int size, int channels, int i, int count>
__device__ __forceinline__ unsigned every(const unsigned (&words)[count]) {
  if constexpr (size == 2) {
    return two_halves<i, i + channels>(words);
  } else {
    constexpr int first = i / 4, last = (i + 3 * channels) / 4, b = i % 4;
    constexpr int of[4] = {b, b + channels, b + 2 * channels, b + 3 * channels};  // bytes, from the first word on
    if constexpr (last == first + 1) {
      return __byte_perm(words[first], words[last], of[0] | of[1] << 4 | of[2] << 8 | of[3] << 12);
    } else if constexpr (last == first + 2) {
      constexpr bool two = of[2] >= 8;  // the last two bytes are in the last word, else one
      const unsigned most = __byte_perm(words[first], words[first + 1], of[0] | of[1] << 4 | (two ? 0 : of[2] << 8));
      return __byte_perm(most, words[last], 0x10 | (two ? of[2] - 4 : 2) << 8 | (of[3] - 4) << 12);
    } else {
      const unsigned low =
          __byte_perm(words[of[0] / 4 + first], words[of[1] / 4 + first], of[0] % 4 | (4 + of[1] % 4) << 4);
      const unsigned high =
          __byte_perm(words[of[2] / 4 + first], words[of[3] / 4 + first], of[2] % 4 | (4 + of[3] % 4) << 4);
      return __byte_perm(low, high, 0x5410);
    }
  }
}

// Word i of two pixels with interleaved channels. pairs[c]: both pixels' numbers of channel c.
template <int i, int channels>
__device__ __forceinline__ unsigned two_pixels(const unsigned (&pairs)[channels]) {
  constexpr int a = 2 * i, b = 2 * i + 1;
  return two_halves<2 * (a % channels) + a / channels, 2 * (b % channels) + b / channels>(pairs);
}

}  // namespace torch_conv
