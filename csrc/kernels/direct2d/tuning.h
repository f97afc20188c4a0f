// Where another variant is faster, each rule with the measurement that decided it.
#pragma once

#include "kernels/direct2d/channels/plan.h"
#include "kernels/direct2d/column/plan.h"
#include "kernels/direct2d/mma/plan.h"
#include "kernels/direct2d/reg/plan.h"
#include "kernels/direct2d/tile/plan.h"

namespace torch_conv::direct2d {

// float32 3x3: REG 97 % of copy, TILE 94 %; 5x5: TILE 90 %, REG 86 %; float16 3x3: TILE 82 %, REG 67 % (4096^2,
// reflect, one NVIDIA H200). Without bulk copies REG serves every window that it supports; on aligned rows,
// TILE by copies of words was not measured against it.
inline const char* reg_is_slower(const Direct& p, const Arch& arch) {
  const bool prefer = p.kh == 3 && size_of(p.in.dtype) == 4;
  return prefer || tile_tma_refusal(p, arch) ? nullptr : "tile_tma is faster";
}

// A product takes 128 to 256 taps and zeros, however small the window: up to 16 taps multiply-adds are as fast. One
// NVIDIA H200, 8192^2, taps of float32, this and TILE: float16 3x3 73.9 us, 70.3; 4x4 75.2, 71.5; 5x5 75, 85; 7x7 78,
// 160; bfloat16 4x4 77.1, 72.4; 5x5 76.7, 88.2; 7x7 92, 150; 15x15 290, 642.
// Narrow taps on the GPU save a launch here that widens them (1.7 us): 4x4 of 4096^2 20.8 us, 23.2.
// HWC images whose channels have a window each, float16 of 8x3x1080x1920, one NVIDIA H100, this and TILE: 3x3 74.4 us,
// 72.8; 4x4 75.6, 89.7; 5x5 79, 136; 7x7 86, 210.
// Rows that start anywhere, float16 of 7x3x1081x1917, narrow taps, this and TILE: 3x3 60.9 us, 71.0; 4x4 65.0, 84.7;
// 4x5 65.2, 93.1; 5x5 64.7 (of float32 71.8), 101.
inline const char* mma_is_slower(const Direct& p, const Arch&) {
  if (p.kw == 1 || p.kh == 1) return "a window of one row or one column";
  const bool anywhere = !mma_bulk(p), own = mma_shape(p).windows > 1;
  const int64_t least = p.taps.narrow ? (anywhere ? 9 : p.taps.on_host && !own ? 17 : 10) : anywhere || own ? 16 : 17;
  return p.kh * p.kw >= least ? nullptr : "multiply-adds are as fast for so few taps";
}

// Fewer channels are read in longer pieces as they lie.
inline const char* tile_groups_is_slower(const Direct& p, const Arch& arch) {
  const bool few = p.in.c <= channel_group(p) && !tile_tma_refusal(p, arch);
  return few ? "rows of few channels are one image" : nullptr;
}

// Lanes 16 bytes apart read the same banks of shared memory: float32 3x3 63 % of copy, CHANNELS 80 (8x4x1080x1920, one
// NVIDIA H200).
inline const char* tile_own_is_slower(const Direct& p, const Arch& arch) {
  const bool worse = p.in.c == 4 && p.in.dtype == Dtype::f32 && p.kh * p.kw <= 9 && !channels_refusal(p, arch);
  return worse ? "channels is faster" : nullptr;
}

inline const char* column_is_faster(const Direct& p, const Arch& arch) {
  return column_refusal(p, arch) ? nullptr : "column is faster";
}
inline const char* tile_is_slower(const Direct& p, const Arch& arch) { return column_is_faster(p, arch); }
inline const char* channels_is_slower(const Direct& p, const Arch& arch) { return column_is_faster(p, arch); }

}  // namespace torch_conv::direct2d
