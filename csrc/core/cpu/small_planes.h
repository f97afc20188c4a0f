// Small planes that the CPU filters together, one plane in each lane (core/cpu/transpose.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/problem.h"

namespace torch_conv {

// Planes that are turned together, a multiple of 16; 0: rows are long enough, or the planes are too few. One thread of
// a Xeon with AVX-512, float32, ms turned | plane by plane:
//     3x3 of 2048 planes of 14x14    0.51 | 1.9     separable 23 taps, 2048 planes of 14x14    1.0 | 36
//     3x3 of 64 planes of 56x56      0.33 | 0.27    separable 3 taps, 64 planes of 64x64      0.39 | 0.35
//     5x5 of 64 planes of 28x28      0.09 | 0.17
inline int64_t planes_together(const Image& in, const Image& out) {
  constexpr int64_t kLanes = 16, kMost = 64;
  constexpr int64_t kBytes = 256 << 10;  // of turned pixels: inputs and outputs stay in a cache
  const int64_t planes = in.n * in.c, pixels = std::max(in.h * in.w, out.h * out.w);
  if (in.d != 1 || out.d != 1 || in.c != out.c || pixels == 0) return 0;
  if (planes < kLanes || interleaved_channels(in, out) > 1) return 0;
  const int64_t fit = std::min(kMost, kBytes / (pixels * acc_bytes(in.dtype))) / kLanes * kLanes;
  if (fit < 2 * kLanes) return 0;
  const int64_t blocks = ceil_div(planes, fit);  // of nearly equal numbers of planes
  return round_up(ceil_div(planes, blocks), kLanes);
}

// `together` planes of an image, turned, as the interleaved channels of one image of another dtype.
inline Image transposed(Image image, int64_t together, Dtype dtype, void* data = nullptr) {
  image.data = data, image.dtype = dtype, image.n = 1, image.c = together;
  image.stride_n = image.stride_d = 0, image.stride_c = 1;
  image.stride_w = together, image.stride_h = together * image.w;
  return image;
}

}  // namespace torch_conv
