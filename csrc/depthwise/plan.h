// Depthwise + Arch -> Plan: which kernel serves the problem. What a variant can do, and how, stands in its
// plan_VARIANT.h; which of two that can is the faster stands here. Pure.
#pragma once

#include "depthwise/plan_channels.h"
#include "depthwise/plan_channels_mma.h"
#include "depthwise/plan_channels_rows.h"
#include "depthwise/plan_channels_tma.h"
#include "depthwise/plan_general.h"
#include "depthwise/plan_large.h"
#include "depthwise/plan_large_mma.h"
#include "depthwise/plan_planes.h"
#include "depthwise/plan_planes_mma.h"
#include "depthwise/plan_rows.h"
#include "depthwise/plan_rows_mma.h"
#include "depthwise/plan_tiles.h"
#include "depthwise/plan_warps.h"

namespace torch_conv::depthwise {

// Figures: us on one NVIDIA H200; the batch is 64 and the map square where nothing else is said.

// float16 3x3: PLANES 24.4 at 96x56, 11.7 at 768x14 and 6.2 at 7, PLANES_MMA 22.5, 11.4 and 7.4, and only PLANES has
// the bits of a chain; 5x5 at 96x56 34.5 against 23.9, 7x7 57 against 25.4, and at 768x14 30.5 against 13.0.
inline const char* planes_mma_loses(const Depthwise& p, const Arch& arch) {
  const bool few = p.kh * p.kw <= 9 || p.in.h * p.in.w <= 64;
  return few && !planes_refusal(p, arch) ? "few taps or pixels: multiply-adds are as fast" : nullptr;
}

// WARPS against the best of the others, float32 3x3: 39.0 and 43.5 at 96x56, 100.6 and 108 at 32x32x224, stride 2 89.0
// and 95.2 at 96x112; 1024x16 (half of the lanes) 43.9 and 47.5, 1024x12 29.9 and 22.2; 8x8x2048 530 and 521. 5x5
// stride 2 37.6 and 39.8 at 144x56, 24.5 and 36.3 at 288x32, 34.7 and 28.2 at 64x68 (53 % of the lanes), stride 1 48
// and 45; 2.9 and 3.3 of two images of 96x56, 4.6 and 4.3 of four. 7x7 80 and 50; 2.8 and 4.0 of one image of
// 72x64, 9.7 and 9.8 of 8. float16 3x3: 25.5 and 23.1 at 96x56, 2.9 and 3.2 of four images, 4.2 and 4.2 of eight, 3.5
// and 3.1 of eight of 128x32 (half of the lanes); stride 2 52.3 and 49.9 at 96x112, 5.1 and 5.9 of 16 of 32x112, 35.4
// and 40.6 at 32x32x224, which PLANES does not hold. 5x5 stride 2 3.1 and 4.4 of two images of 32x112, 5.1 and 5.1 of
// eight.
inline const char* warps_loses(const Depthwise& p, const Arch& arch) {
  const WarpsConfig c = warps_config(p);
  const bool f32 = p.in.dtype == Dtype::f32, steps = c.window.step == 2, three = c.window.k == 3;
  const int lanes = c.across * c.window.lanes;
  const bool half = 2 * c.vectors >= lanes, most = 3 * c.vectors >= 2 * lanes;
  if (three && (f32 || steps) ? !half : !most) return "rows that leave lanes empty";
  if (f32 && three) {
    const bool direct = !steps && p.activation == Activation::none && p.in.w >= 1024;
    return direct ? "direct/tile_tma is faster" : nullptr;
  }
  const auto below = [&](int bits) { return p.out.n * p.out.c * p.out.h * p.out.w < int64_t(1) << bits; };
  bool few = f32 && below(19);
  if (c.window.k == 5) few = f32 ? steps || below(20) : steps && below(19);
  if (three) few = below(21) || (steps && planes_refusal(p, arch));
  return few ? nullptr : "many outputs: shared memory is faster";
}

// float16 7x7 at 96x56: LARGE_MMA 68, PLANES 57, PLANES_MMA 25.4.
inline const char* large_mma_loses(const Depthwise& p, const Arch&) {
  return p.kh <= 9 && p.kw <= 9 ? "a window up to 9x9" : nullptr;
}

// float32 at 384x32: 31x31 LARGE 1035, TILES 1127 (of a quarter of the channels, times 4); 13x13 439 and 243.
inline const char* large_loses(const Depthwise& p, const Arch&) {
  return p.kh * p.kw < 600 ? "a window of fewer than 600 taps" : nullptr;
}

// float32 at 8x8x2048: 3x3 96 % of copy by TILES, 97 by `direct`; 7x7 64 and 81. In half precision `direct` reaches
// the same, but its windows are float32, which takes a launch more.
inline const char* tiles_loses(const Depthwise& p, const Arch& arch) {
  const bool taken = p.activation == Activation::none && p.in.dtype == Dtype::f32 && p.place.unit_steps_of_images() &&
                     p.out.w >= 112 && p.kh > 1 && arch.bulk_copy && tma::words_possible(p.in);
  return taken ? "direct/tile_tma is faster" : nullptr;
}

// float16 3x3, one image of 96x112: 5.0; CHANNELS_TMA takes 2.6 for 96x56. Of 64 images the products are ahead: 12.4
// against 15 at 768x14, 25.3 against 25.5 at 96x56; 5x5 27.7 against 42 and 7x7 28.9 against 58. Signals are brought by
// CHANNELS_TMA at 98 % of copy with 7 taps, and a product would have one row of them.
inline const char* channels_mma_loses(const Depthwise& p, const Arch& arch) {
  const bool small = p.kh * p.kw <= 9 && p.out.n * p.out.c * p.out.h * p.out.w < (1 << 21);
  return (small || p.kh == 1) && !channels_tma_refusal(p, arch) ? "few outputs or taps: multiply-adds are faster"
                                                                : nullptr;
}

// The kernels of `direct` keep pixels in registers or shared memory; GENERAL reads them again for every tap.
inline const char* general_loses(const Depthwise& p, const Arch&) {
  const bool taken = p.activation == Activation::none && p.place.unit_steps_of_images();
  return taken ? "direct is faster" : nullptr;
}

constexpr Candidate<Depthwise> kGeneral{"general", general_refusal, general_loses, configure_general};

constexpr Candidate<Depthwise> kCandidates[] = {
    {"rows_mma", rows_mma_refusal, rows_mma_loses, configure_rows_mma},
    {"rows", rows_refusal, nullptr, configure_rows},
    {"planes_mma", planes_mma_refusal, planes_mma_loses, configure_planes_mma},
    {"large_mma", large_mma_refusal, large_mma_loses, configure_large_mma},
    {"warps", warps_refusal, warps_loses, configure_warps},
    {"planes", planes_refusal, nullptr, configure_planes},
    {"large", large_refusal, large_loses, configure_large},
    {"tiles", tiles_refusal, tiles_loses, configure_tiles},
    {"channels_mma", channels_mma_refusal, channels_mma_loses, configure_channels_mma},
    {"channels_tma", channels_tma_refusal, nullptr, configure_channels_tma},
    {"channels_rows", channels_rows_refusal, nullptr, configure_channels_rows},
    {"channels", channels_refusal, nullptr, configure_channels},
    kGeneral,
};
// What makes products; the others have no word in why none serves.
constexpr Candidate<Depthwise> kProducts[] = {kCandidates[0], kCandidates[2], kCandidates[3], kCandidates[8]};
// Where an image is one part of another, its outputs may start beyond its first pixels.
constexpr Candidate<Depthwise> kOfParts[] = {kGeneral};

inline Plan plan(const Depthwise& p, const Arch& arch, const char* pinned) {
  const double outputs = double(p.out.n * p.out.c) * double(p.out.h * p.out.w);
  const Plan base{
      .algorithm = "depthwise",
      .bytes = double(p.in.n * p.in.c) * double(p.in.h * p.in.w) * size_of(p.in.dtype) + outputs * size_of(p.out.dtype),
      .flops = 2.0 * double(p.kh * p.kw) * outputs};
  if (p.place.pad_y < 0 || p.place.pad_x < 0) return choose(kOfParts, p, arch, pinned, base);
  if (p.sums == Sums::products && !*pinned) return choose(kProducts, p, arch, pinned, base);
  return choose(kCandidates, p, arch, pinned, base);
}

}  // namespace torch_conv::depthwise
