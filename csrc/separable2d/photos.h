// Photographs, (H, W, C): channels that lie side by side and share a window. Variants filter them as rows of numbers.
#pragma once

#include "core/problem.h"

namespace torch_conv::separable2d {

constexpr int64_t kMostSideBySide = 4;  // channels

// How many channels photographs have side by side, in the shards beside them, too; 1 of other images.
inline int photo_channels(const Separable& p) {
  const int64_t channels = interleaved_channels(p.in, p.out);
  const auto alike = [&](const Image& shard) { return !shard.data || interleaved_channels(p.in, shard) == channels; };
  const bool photos = channels <= kMostSideBySide && p.taps_x.stride_c == 0 && p.taps_y.stride_c == 0 &&
                      alike(p.beside.above) && alike(p.beside.below);
  return photos ? int(channels) : 1;
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
