// Photographs, (H, W, C): channels that lie side by side and share a window. Variants filter them as rows of numbers.
#pragma once

#include "core/problem.h"

namespace torch_conv::separable2d {

inline int photo_channels(const Separable& p) {
  const bool shared = p.taps_x.stride_c == 0 && p.taps_y.stride_c == 0;
  return shared ? int(photo_channels(p.in, p.out, p.beside)) : 1;
}

// Photographs as rows of numbers of one channel, whose taps lie photo_channels apart.
inline Separable as_rows(const Separable& p) {
  Separable rows = p;
  const int channels = photo_channels(p);
  for (Image* x : {&rows.in, &rows.out, &rows.beside.above, &rows.beside.below}) *x = as_rows(*x, channels);
  rows.place.pad_x *= channels;
  return rows;
}

}  // namespace torch_conv::separable2d
