// What the two passes of a box share on the CPU: windows far larger than the image, and what is added up.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/border.h"

namespace torch_conv::box {

// One axis of a window far larger than the image: k positions from `pad` before an output on, and apart from them how
// often every window reads each pixel (nothing if the window is as it was given).
struct ShortWindow {
  int64_t k, pad;
  std::vector<int64_t> apart;
};

// Whole periods of the border's pattern, or what lies outside whatever the output, are the same for all windows. The
// rest is at most about two images long, however large the window.
inline ShortWindow shorten(int64_t k, int64_t pad, int64_t n, int64_t outputs, Border border) {
  ShortWindow w{k, pad, {}};
  if (border == Border::circular || border == Border::reflect || border == Border::symmetric) {
    const int64_t period = border == Border::circular    ? n
                           : border == Border::symmetric ? 2 * n
                                                         : std::max<int64_t>(1, 2 * n - 2);
    const int64_t periods = (k - 1) / period;
    if (periods == 0) return w;
    w = {k - periods * period, pad % period, std::vector<int64_t>(n)};
    for (int64_t i = 0; i < period; ++i) w.apart[map_index(i, n, border)] += periods;
  } else {
    const int64_t before = std::clamp<int64_t>(pad - outputs + 1, 0, k - 1);
    const int64_t behind = std::clamp<int64_t>(k - pad - n, 0, k - 1 - before);
    w.k -= before + behind, w.pad -= before;
    if (border == Border::replicate && before + behind > 0) {
      w.apart.resize(n);
      w.apart.front() += before, w.apart.back() += behind;
    }
  }
  return w;
}

// What a box adds up. Integers are exact (modulo 2^32 or 2^64, as differences of sums that wrapped are), floats
// are summed in float64.
struct WholeValue {
  template <typename S, typename T>
  static TC_HD S of(T v) {
    return S(v);
  }
};
// Where a NaN or an infinity came near: the finite values, in a type that their sum cannot overflow, ...
struct FiniteValue {
  template <typename S, typename T>
  static TC_HD S of(T v) {
    return std::isfinite(v) ? S(v) : S(0);
  }
};
// ... and how many others there are: +Inf and NaN in the lower half of the sum, -Inf and NaN in the upper half.
__extension__ using Tally = unsigned __int128;
struct OtherValue {
  template <typename S, typename T>
  static TC_HD S of(T v) {
    const S above = !(v < T(INFINITY)), below = !(v > -T(INFINITY));
    return above | below << 64;
  }
};

}  // namespace torch_conv::box
