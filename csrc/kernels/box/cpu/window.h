// Running sums on the CPU: windows far larger than the image.
#pragma once

#include <algorithm>
#include <vector>

#include "core/border.h"

namespace torch_conv::box {

// One axis of a window far larger than the image: k positions from `pad` before an output on. `extra_counts` holds the
// number of times that every window reads each pixel besides them. `extra_counts` is empty if the window is unchanged.
struct ShortWindow {
  int64_t k, pad;
  std::vector<int64_t> extra_counts;
};

// Whole periods of the border's pattern, or positions outside for every output, are the same for all windows. The
// rest is at most about two images long, however large the window.
inline ShortWindow shorten(int64_t k, int64_t pad, int64_t n, int64_t outputs, Border border) {
  ShortWindow w{k, pad, {}};
  if (const int64_t period = period_of(border, n); period > 0) {
    const int64_t periods = (k - 1) / period;
    if (periods == 0) return w;
    w = {k - periods * period, pad % period, std::vector<int64_t>(n)};
    for (int64_t i = 0; i < period; ++i) w.extra_counts[map_index(i, n, border)] += periods;
  } else {
    const int64_t before = std::clamp<int64_t>(pad - outputs + 1, 0, k - 1);
    const int64_t behind = std::clamp<int64_t>(k - pad - n, 0, k - 1 - before);
    w.k -= before + behind, w.pad -= before;
    if (border == Border::replicate && before + behind > 0) {
      w.extra_counts.resize(n);
      w.extra_counts.front() += before, w.extra_counts.back() += behind;
    }
  }
  return w;
}

}  // namespace torch_conv::box
