// Comparisons of CUDA variants that serve the same problem. VARIANT_is_slower: null, or why another variant is faster.
// "direct is faster" compares with another kernel family: convolutions ask this family before `direct`. For filters
// dispatch/filter/tuning.h compares them.
// Above each function stand its rule and the measurements behind it. All times are us on one NVIDIA H200, unless a line
// names another unit or GPU. `96x56` is a batch of 64 images of 96 channels and 56x56 pixels; `2 of 96x56` has 2
// images.
#pragma once

#include "kernels/depthwise/channels_tma/plan.h"
#include "kernels/depthwise/planes/plan.h"
#include "kernels/depthwise/warps/plan.h"

namespace torch_conv::depthwise {

// ROWS_MMA is slower for fewer than 7 taps, and for fewer than 16 taps on unaligned rows. float16 64x768:
//
//     rows of 1024    ROWS  ROWS_MMA        rows of 1001    ROWS_MMA
//       k = 7           55        54          k = 31              78
//       k = 9           56        54
//       k = 15          76        54
//
inline const char* rows_mma_is_slower(const Depthwise& p, const Arch&) {
  if (p.kw < 7) return "a short window: multiply-adds are faster";
  const bool aligned = p.in.w % 4 == 0 && p.out.w % 2 == 0 && p.in.stride_c % 4 == 0 && p.out.stride_c % 2 == 0;
  return p.kw < 16 && !aligned ? "unaligned rows: multiply-adds are faster" : nullptr;
}

// PLANES is as fast as PLANES_MMA for few taps or pixels, and has the bits of a chain. float16, PLANES : PLANES_MMA:
//
//     3x3  96x56 24.4 : 22.5; 768x14 11.7 : 11.4; 768x7 6.2 : 7.4
//     5x5  96x56 34.5 : 23.9
//     7x7  96x56 57 : 25.4; 768x14 30.5 : 13.0
//
inline const char* planes_mma_is_slower(const Depthwise& p, const Arch& arch) {
  const bool few = p.sums != Sums::mma && (p.kh * p.kw <= 9 || p.in.h * p.in.w <= 64);
  return few && !planes_refusal(p, arch) ? "few taps or pixels: multiply-adds are as fast" : nullptr;
}

// True if `direct` filters such images by bulk copies. An activation would need another launch.
inline bool direct_copies_in_bulk(const Depthwise& p, const Arch& arch) {
  return p.activation == Activation::none && p.in.dtype == Dtype::f32 && p.place.unit_steps_of_images() && p.kh > 1 &&
         arch.bulk_copy && tma::vectors_possible(p.in);
}

// WARPS is faster if at least this part of its lanes has a vector and the call has fewer outputs than this number. It
// is slower for all other windows, and for 3x3 of rows of 1024 pixels that `direct` copies in bulk.
//
//     float32   3x3          1/2, any number      float16   3x3 stride 1 2/3, 2^21
//               5x5 stride 1 2/3, 2^20                      3x3 stride 2 1/2, 2^21; any number if PLANES holds no plane
//               5x5 stride 2 2/3, any number                5x5 stride 2 2/3, 2^19
//               7x7          2/3, 2^19
//
// us, WARPS and the fastest other variant:
//
//     one NVIDIA H200
//       float32   3x3 stride 1 96x56 39.0 43.5    32x32x224 100.6 108    1024x16 43.9 47.5
//                              1024x12 (3/8 of the lanes) 29.9 22.2    8 of 8x2048 530, `direct` 521
//                 3x3 stride 2 96x112 89.0 95.2
//                 5x5 stride 1 96x56 48 45    2 of 96x56 2.9 3.3    4 of 96x56 4.6 4.3
//                 5x5 stride 2 144x56 37.6 39.8    288x32 24.5 36.3    64x68 (53 % of the lanes) 34.7 28.2
//                 7x7          96x56 80 50    1 of 72x64 2.8 4.0    8 of 72x64 9.7 9.8
//       float16   3x3 stride 1 96x56 25.5 23.1    4 of 96x56 2.9 3.2    8 of 96x56 4.2 4.2
//                              8 of 128x32 (half of the lanes) 3.5 3.1
//                 3x3 stride 2 96x112 52.3 49.9    16 of 32x112 5.1 5.9    32x32x224 (no PLANES) 35.4 40.6
//                 5x5 stride 2 2 of 32x112 3.1 4.4    8 of 32x112 5.1 5.1
inline const char* warps_is_slower(const Depthwise& p, const Arch& arch) {
  const WarpsConfig c = warps_config(p);
  const bool f32 = p.in.dtype == Dtype::f32, two = c.shape.stride == 2;
  const int k = c.shape.k, lanes = c.strips_x * c.shape.lanes;
  const bool half_is_enough = k == 3 && (f32 || two);
  if (half_is_enough ? 2 * c.vectors < lanes : 3 * c.vectors < 2 * lanes) return "rows that leave lanes empty";
  if (k == 3 && p.in.w >= 1024 && direct_copies_in_bulk(p, arch)) return "direct is faster";
  constexpr int64_t any = INT64_MAX;
  int64_t most = 0;
  if (f32) most = k == 3 || (k == 5 && two) ? any : k == 5 ? 1 << 20 : 1 << 19;
  else if (k == 3) most = two && planes_refusal(p, arch) ? any : 1 << 21;
  else if (k == 5 && two) most = 1 << 19;
  const int64_t outputs = p.out.n * p.out.c * p.out.h * p.out.w;
  return most == any || outputs < most ? nullptr : "many outputs: shared memory is faster";
}

// LARGE_MMA is slower for windows up to 9x9. float16 7x7 96x56: LARGE_MMA 68, PLANES 57, PLANES_MMA 25.4.
inline const char* large_mma_is_slower(const Depthwise& p, const Arch&) {
  return p.kh <= 9 && p.kw <= 9 ? "a window up to 9x9" : nullptr;
}

// LARGE is slower for fewer than 600 taps. float32 384x32, LARGE : TILES: 13x13 439 : 243; 31x31 1035 : 1127 (four
// times the time of a quarter of the channels).
inline const char* large_is_slower(const Depthwise& p, const Arch&) {
  return p.kh * p.kw < 600 ? "a window of fewer than 600 taps" : nullptr;
}

// TILES is slower than `direct` on wide float32 planes. Percent of copy, 8 of 8x2048, TILES : `direct`: 3x3 96 : 97;
// 7x7 64 : 81. In half precision `direct` is as fast, but another launch must convert its windows to float32.
inline const char* tiles_is_slower(const Depthwise& p, const Arch& arch) {
  return p.out.w >= 112 && direct_copies_in_bulk(p, arch) ? "direct is faster" : nullptr;
}

// Blocks of some channels read and write parts of sectors, if a pixel of half precision is no multiple of 32 bytes.
// CHANNELS is then faster for few taps. us, float16, CHANNELS, CHANNELS_TMA and CHANNELS_MMA:
//
//     one NVIDIA H200
//       3x3   8x112 12.6 16.4 26.0    24x56 9.9 14.6 15.1     24x112 30.5 39.7 39.3    40x28 6.1 9.5 8.6
//             40x56 15.7 21.3 19.4    56x56 20.9 24.4 22.8    72x56 26.7 26.8 28.1     120x28 13.4 14.4 15.4
//             one image of 24x112 (2^18 outputs) 3.8 2.8 5.0
//       5x5   8x112 20.1 25.6 26.7    24x56 16.1 19.4 15.7    24x112 57 55 40    40x56 30 26 20    120x28 22.9 25 15.6
//     one NVIDIA H200, larger than the cache
//       8 of 8x1080x1920    3x3 190 284 526    5x5 319 440 528
//     one NVIDIA H100, larger than the cache
//       4 of 24x1080x1920   3x3 298 392 570    5x5 495 465 569
//       2 of 40x1080x1920   3x3 247 370 682    5x5 421 370 683
//     one NVIDIA H200, pixels of whole sectors
//       3x3   16x56 7.8 7.1 7.2    16x112 20.1 20.8 21.5    16x1080x1920 201 204 240    32x112 37 33 33
//             48x56 17.5 16.6 16.7
inline bool parts_of_sectors(const Depthwise& p) {
  const bool images = p.out.h > 1 && p.place.unit_steps_of_images() && p.multiplier() == 1;
  return images && is_half(p.in.dtype) && p.in.c * size_of(p.in.dtype) % 32 != 0;
}
// True if the images are larger than the cache of any Hopper. CHANNELS_MMA is then slower.
inline bool beyond_cache(const Depthwise& p) {
  return 2 * p.in.n * p.in.c * p.in.h * p.in.w * size_of(p.in.dtype) > (int64_t(64) << 20);
}

// CHANNELS_MMA is slower for few taps or outputs, for parts of sectors, and for signals. CHANNELS_TMA has 98 % of copy
// for signals with 7 taps; an mma would hold one row of taps. float16, CHANNELS_MMA : CHANNELS_TMA:
//
//     3x3  768x14 12.4 : 15; 96x56 25.3 : 25.5; one image 5.0 (96x112) : 2.6 (96x56)
//     5x5  96x56 27.7 : 42
//     7x7  96x56 28.9 : 58
//
inline const char* channels_mma_is_slower(const Depthwise& p, const Arch& arch) {
  const int64_t taps = p.kh * p.kw, outputs = p.out.n * p.out.c * p.out.h * p.out.w;
  const bool few = taps <= 9 && (outputs < (1 << 21) || p.in.c < 32 || parts_of_sectors(p));
  const bool parts = taps <= 25 && parts_of_sectors(p) && (p.in.c < 16 || beyond_cache(p));
  return (few || parts || p.kh == 1) && p.sums != Sums::mma && !channels_tma_refusal(p, arch)
             ? "few outputs or taps, or parts of sectors: multiply-adds are faster"
             : nullptr;
}

// CHANNELS_TMA and CHANNELS_ROWS load by bulk copies. Loads by threads are faster for parts of sectors and few taps;
// the table at parts_of_sectors has the times.
inline const char* channels_bulk_is_slower(const Depthwise& p, const Arch&) {
  const int64_t taps = p.kh * p.kw, outputs = p.out.n * p.out.c * p.out.h * p.out.w;
  const bool few = taps <= 9 || (taps <= 25 && p.in.c < 16);
  return few && outputs >= (1 << 20) && parts_of_sectors(p) ? "parts of sectors: loads by threads are faster" : nullptr;
}

// GENERAL is slower than `direct` everywhere: it loads pixels for every tap, and `direct` keeps them in registers or in
// shared memory.
inline const char* general_is_slower(const Depthwise& p, const Arch&) {
  const bool served_by_direct = p.activation == Activation::none && p.place.unit_steps_of_images();
  return served_by_direct ? "direct is faster" : nullptr;
}

}  // namespace torch_conv::depthwise
