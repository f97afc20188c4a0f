// The border policies and the one index map that CPU and CUDA share.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace torch_conv {

// constant .. circular extend the image; skip leaves the taps outside out of the sum;
// zero_output writes 0 where the window does not fit (and so never reads outside).
enum class Border : int8_t { constant, replicate, reflect, symmetric, circular, skip, zero_output };

inline const char* name_of(Border b) {
  switch (b) {
    case Border::constant: return "constant";
    case Border::replicate: return "replicate";
    case Border::reflect: return "reflect";
    case Border::symmetric: return "symmetric";
    case Border::circular: return "circular";
    case Border::skip: return "skip";
    case Border::zero_output: return "zero_output";
  }
  __builtin_unreachable();
}

// Where position i (any distance outside) of an axis of n >= 1 elements is read:
// an index in [0, n), or -1 when no element stands there (constant, skip, zero_output).
template <typename I>
TC_HD I map_index(I i, I n, Border border) {
  if (i >= 0 && i < n) return i;
  switch (border) {
    case Border::replicate: return i < 0 ? I(0) : n - 1;
    // One fold reaches the image unless the window is larger than it; the divisions are for that rare case.
    case Border::circular: {
      I m = i < 0 ? i + n : i - n;
      if (m >= 0 && m < n) return m;
      m = i % n;
      return m < 0 ? m + n : m;
    }
    case Border::reflect: {
      I m = i < 0 ? -i : 2 * n - 2 - i;
      if (m >= 0 && m < n) return m;
      if (n == 1) return 0;
      const I period = 2 * (n - 1);
      m = i % period;
      m = m < 0 ? m + period : m;
      return m < n ? m : period - m;
    }
    case Border::symmetric: {
      I m = i < 0 ? -1 - i : 2 * n - 1 - i;
      if (m >= 0 && m < n) return m;
      const I period = 2 * n;
      m = i % period;
      m = m < 0 ? m + period : m;
      return m < n ? m : period - 1 - m;
    }
    case Border::constant:
    case Border::skip:
    case Border::zero_output: return -1;
  }
  return -1;
}

// The same for column x of a row of w values, `channels` of every pixel side by side: the value of the same channel in
// the pixel that is read.
template <typename I>
TC_HD I map_column(I x, I w, I channels, Border border) {
  if (channels == 1 || (x >= 0 && x < w)) return map_index(x, w, border);
  const I pixel = (x < 0 ? x - channels + 1 : x) / channels, m = map_index(pixel, w / channels, border);
  return m < 0 ? m : m * channels + x - pixel * channels;
}

}  // namespace torch_conv
