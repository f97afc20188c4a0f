// Comparisons of variants, each rule with its measurement.
#pragma once

#include "kernels/direct2d/channels/plan.h"
#include "kernels/direct2d/column/plan.h"
#include "kernels/direct2d/mma/plan.h"
#include "kernels/direct2d/reg/plan.h"
#include "kernels/direct2d/tile/plan.h"

namespace torch_conv::direct2d {

// Percent of copy, 4096^2, reflect, one NVIDIA H200, REG and TILE: float32 3x3 97, 94; 5x5 86, 90; float16 3x3 67, 82.
// Without bulk copies REG serves every window that it supports. TILE by copies of single threads was not measured on
// aligned rows.
inline const char* reg_is_slower(const Direct& p, const Arch& arch) {
  const bool prefer = p.kh == 3 && size_of(p.in.dtype) == 4;
  return prefer || tile_tma_refusal(p, arch) ? nullptr : "tile_tma is faster";
}

// A matrix of taps holds 128 to 256 taps and zeros, however small the window: up to 16 taps, multiply-adds are as fast.
// us, MMA and TILE:
//
//     one NVIDIA H200, 8192^2, taps of float32
//       float16   3x3 73.9 70.3   4x4 75.2 71.5   5x5 75   85     7x7 78 160
//       bfloat16                  4x4 77.1 72.4   5x5 76.7 88.2   7x7 92 150   15x15 290 642
//     one NVIDIA H200, 4096^2, narrow taps on the GPU, which TILE widens by another launch
//       float16                   4x4 20.8 23.2
//     one NVIDIA H100, 8x3x1080x1920, channels interleaved, a window for each
//       float16   3x3 74.4 72.8   4x4 75.6 89.7   5x5 79  136     7x7 86 210
//     one NVIDIA H200, 7x3x1081x1917, unaligned rows, narrow taps
//       float16   3x3 60.9 71.0   4x4 65.0 84.7   4x5 65.2 93.1   5x5 64.7 (taps of float32 71.8) 101
inline const char* mma_is_slower(const Direct& p, const Arch&) {
  if (p.sums == Sums::mma) return nullptr;
  if (p.kw == 1 || p.kh == 1) return "a window of one row or one column";
  const bool unaligned = !mma_bulk(p), window_each = mma_shape(p).windows > 1;
  const bool widened = p.taps.narrow && !p.taps.on_host;
  int64_t least = unaligned || window_each ? 16 : 17;
  if (p.taps.narrow) least = unaligned ? 9 : widened || window_each ? 10 : 17;
  return p.kh * p.kw >= least ? nullptr : "multiply-adds are as fast for so few taps";
}

// Groups of many interleaved channels as images of their own. Percent of copy, TILE by groups | CHANNELS | cuDNN:
//
//     one NVIDIA H200, 16x512x56x56
//       float32   3x3 94 82 65    5x5 84 54 27    float16   3x3 84 53 58    5x5 53 30 42    7x7 22 16 15
//       uint8     3x3 48 20 -     5x5 24 14 -
//     one NVIDIA H200, 16x64x224x224, a window for each channel
//       float32   3x3 94 79 74    5x5 76 31 29    7x7 47 19 11
//       float16   3x3 82 39 84    5x5 41 16 46    uint8     3x3 46 18 -
//     one NVIDIA H100, groups of 16 bytes, a window for each channel
//       float32 8x12x540x960     3x3 45 88 85    5x5 50 42 50    7x7 50 26 25
//       float16 8x24x540x960     3x3 50 52 75    5x5 50 23 49
//       float16 8x8x1080x1920    3x3 69 50 77    5x5 61 23 49    uint8 8x16x1080x1920    3x3 66 25 -
//
// A tile reads few channels in longer pieces without groups: float16 of 64 channels 95 %, by groups 93; of 128 channels
// 89 and 90.
inline const char* tile_groups_is_slower(const Direct& p, const Arch& arch) {
  const bool few = p.in.c <= channel_group(p) && !tile_tma_refusal(p, arch);
  return few ? "rows of few channels are one image" : nullptr;
}

// TILE's lanes, 16 bytes apart, read the same banks of shared memory. Percent of copy, float32, a window for each
// channel, one NVIDIA H200, CHANNELS | TILE | cuDNN (channels_last):
//
//     8x4x1080x1920 3x3 80 63 68    8x8x1080x1920 3x3 83 83 73
inline const char* tile_own_is_slower(const Direct& p, const Arch& arch) {
  const bool worse = p.in.c == 4 && p.in.dtype == Dtype::f32 && p.kh * p.kw <= 9 && !channels_refusal(p, arch);
  return worse ? "channels is faster" : nullptr;
}

inline const char* wide_window_is_slower(const Direct& p, const Arch& arch) {
  return column_refusal(p, arch) ? nullptr : "column is faster";
}

// MMA_GENERAL has MMA's rule, and comes last: it serves where MMA's kernel is not there. Its speed was not measured.
// WINDOW and GENERAL come before it and have no rule. float32 4096^2, one NVIDIA H200, us: 9x9 255, 818; 15x15 460,
// 2011; 31x31 1615, 7953.

}  // namespace torch_conv::direct2d
