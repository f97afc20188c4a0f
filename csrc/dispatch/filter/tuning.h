// Comparisons of the depthwise kernel family with the kernel families of filters. Convolutions ask the depthwise family
// first, and kernels/depthwise/tuning.h names its variants that are slower than `direct`: a plan reports these refusals
// variant by variant. fft_tiles.h compares FFT, passes and direct sums by expected times.
#pragma once

#include <algorithm>

#include "core/problem.h"

namespace torch_conv {

// The depthwise kernel family sums by tensor cores (mma) or by the fused chains of filters. Time for float16, us, on
// one NVIDIA H200, by the filters' kernels and by the depthwise kernel family:
//
//         n x c x h x w          filters  chains   mma  F.conv2d
//     3x3  8 x   8 x 1080 x 1920   215     190   526       205
//         64 x  24 x  112 x  112    50      31    39        38
//         64 x  40 x   56 x   56    29      16    19        20
//         16 x  64 x  224 x  224    70      64    61        89
//         64 x  96 x   56 x   56    33      25    26        38
//         64 x 480 x   14 x   14    18      12    11        16
//          1 x  48 x   56 x   56   5.7     2.6   4.5       3.3
//     5x5  8 x   8 x 1080 x 1920   287     319   528       365
//         64 x  24 x   56 x   56    23      16    16        20
//         64 x  24 x  112 x  112    58      55    40        65
//         64 x  40 x   56 x   56    33      26    20        29
//
// Time on one NVIDIA H100:
//
//         n x c x h x w          filters  chains   mma  F.conv2d
//     5x5  4 x  24 x 1080 x 1920   533     465   569       701
//     7x7 16 x  64 x  224 x  224   466       -    81       326
//          8 x 512 x   56 x   56   262       -    43       170
//          8 x   8 x 1080 x 1920  1164       -   799       813
//     6x6  8 x   8 x 1080 x 1920  1066       -   817         -
//          4 x  24 x 1080 x 1920  1325       -   605         -
//
// bfloat16 is the same to 5 %. Channels that are no multiple of four were not measured.
inline Sums depthwise_sums(const Direct& p) {
  const int64_t taps = p.kh * p.kw;
  return taps <= 9 || (taps <= 25 && p.in.c % 16 != 0) ? Sums::chain : Sums::mma;
}

// Null, or why the filters' kernels are as fast.
inline const char* depthwise_is_slower(const Direct& p) {
  const int64_t taps = p.kh * p.kw, least_channels = taps > 9 && taps <= 25 ? 12 : 8;
  const bool faster = std::min(p.kh, p.kw) > 1 && p.in.c % 4 == 0 && p.in.c >= least_channels;
  return faster ? nullptr : "few taps or channels: multiply-adds are as fast";
}

}  // namespace torch_conv
