// HWC images: their interleaved channels share a window. Variants filter them as rows of numbers.
#pragma once

#include "core/problem.h"

namespace torch_conv::separable2d {

inline int hwc_channels(const Separable& p) {
  const bool shared = p.taps_x.stride_c == 0 && p.taps_y.stride_c == 0;
  return shared ? int(hwc_channels(p.in, p.out, p.peers)) : 1;
}

// HWC images as rows of numbers of one channel, whose taps are hwc_channels apart.
inline Separable as_rows(const Separable& p) {
  Separable rows = p;
  const int channels = hwc_channels(p);
  for (Image* x : {&rows.in, &rows.out, &rows.peers.above, &rows.peers.below}) *x = as_rows(*x, channels);
  rows.place.pad_x *= channels;
  return rows;
}

}  // namespace torch_conv::separable2d
