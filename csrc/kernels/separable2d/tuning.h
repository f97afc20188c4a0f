// Comparisons of variants, each rule with its measurement.
#pragma once

#include "kernels/separable2d/line_buffer/plan.h"
#include "kernels/separable2d/ring/plan.h"
#include "kernels/separable2d/strip/plan.h"
#include "kernels/separable2d/tile/plan.h"
#include "kernels/separable2d/typed_ring/plan.h"

namespace torch_conv::separable2d {

// A tile takes as many mma for 3 taps as for 9. us, MMA and the fastest chain:
//
//     one NVIDIA H200
//       float16  4096^2           5x5 27.7 22.6    7x7 27.4 24.4      9x9 27.4 28.0      5x9 27.2 47.7
//                16x3x1080x1920                    7x7 124.6 121.9    9x9 124.5 142.2    15x15 126 259
//       uint8    4096^2                            7x7 27.0 25.4      9x9 26.6 31.7
//                1080p            5x5 117 94                          9x9 118 169
//     one NVIDIA H100, HWC images, 16x3x1080x1920
//       float16                   5x5 195 144      7x7 193 149        9x9 193 188        15x15 197 383
//       uint8                     5x5 133 109      7x7 137 160        9x9 135 240
//     one NVIDIA H100, unaligned rows
//       uint8    width 1917       5x5 164 183
//
// The choice must not depend on the layout, because a pixel's bits would then depend on it. So chains serve HWC images
// of bytes by 7x7, and bytes of unaligned rows by 5x5.
inline const char* mma_is_slower(const Separable& p, const Arch&) {
  if (p.sums == Sums::mma) return nullptr;
  if (p.kh == 1 || p.kw == 1) return "a window of one row or one column";
  return std::max(p.kh, p.kw) >= 9 ? nullptr
                                   : "few taps: chains are mostly as fast, with the same bits in every layout";
}

// Without RING, STRIP serves planes. us, one NVIDIA H200, RING and STRIP:
//
//     4096^2           21x21 48 74    31x31 58 85      63x63 105 146
//     1024^2                          31x31 9.3 15.0
//     16x3x1080x1920                  31x31 288 439
//
// TILE is faster where it serves, unless windows of 9 taps and more leave it fewer blocks than there are
// multiprocessors. us, TILE and RING:
//
//     one NVIDIA H200
//       512^2            7x7 3.6 4.2      9x9 4.4 4.3      13x13 6.7 4.6    15x15 7.4 4.7
//       1024^2           9x9 6.4 6.2      11x11 6.8 6.8    13x13 8.2 7.0    15x15 8.8 7.1
//       2048^2                            9x9 13.0 13.2                     15x15 14.9 15.0
//       4096^2           5x5 37.2 40.8    9x9 40.3 42.0                     15x15 44.3 43.5
//       8192^2                                                              15x15 149 157
//       16x3x1080x1920                                                      15x15 219 225
//     one NVIDIA H100, HWC images (a copy takes 267 us)
//       16x3x1080x1920   3x3 295 307      5x5 282 312      7x7 281 307      9x9 285 307      15x15 380 323
inline const char* ring_is_slower(const Separable& p, const Arch& arch) {
  if (tile_refusal(p, arch)) return nullptr;
  if (hwc_channels(p) > 1) return p.kw <= 9 ? "tiles are faster for HWC images and an odd size up to 9" : nullptr;
  const bool few = tile_blocks(p, tile_shape(p, 1)) < arch.multiprocessors;
  return few && p.kw >= 9 ? nullptr : "tiles are faster for an odd size up to 15";
}

// RING_UNALIGNED is RING for unaligned rows, and for windows whose boxes have more than 256 columns. us, one NVIDIA
// H100, unaligned rows, TILE (from 17 taps on STRIP) and RING_UNALIGNED:
//
//     16x3x1080x1917   3x3 335 362     5x5 360 365    9x9 389 370
//                      15x15 570 376   31x31 956 469  63x63 1732 795
//       HWC images     5x5 394 399     15x15 856 428
//     2048x2047        3x3 21.4 17.0   7x7 23.5 17.0  31x31 57 27
//     512x511          3x3 9.5 6.7     7x7 10.1 6.4   31x31 24 10.5
//
// Large windows, STRIP (from 170 taps on TWO_PASS) and RING_UNALIGNED:
//
//     1024^2                              255x255 104 193
//     2048^2           127x127 131 141    255x255 304 314
//     4096^2           127x127 370 356    255x255 1089 700    191x191 906 519
//     8192^2           127x127 1156 1208  255x255 4172 2240
inline const char* ring_unaligned_is_slower(const Separable& p, const Arch& arch) {
  if (!tile_tma_refusal(p, arch)) return "tiles are faster for an odd size up to 15";
  const Separable rows = as_rows(p);
  const bool many = p.kw < 5 && !tile_refusal(p, arch) &&
                    tile_blocks(rows, tile_shape(rows, hwc_channels(p))) > 64 * arch.multiprocessors;
  if (many) return "tiles are faster for 3x3 of many images";
  const RingPolicy s = ring_policy(p, false);
  if (!strip_refusal(p, arch)) {
    if (s.bytes() > arch.shared_bytes / 2) return "strips are as fast where one block fills shared memory";
    return plane_copy_refusal(rows.in, arch) ? nullptr : "strips are as fast for windows beyond RING";
  }
  const bool low = ring_steps(rows, s.pixel, s.bytes(), arch) * kRingRows < 2 * p.kh;
  return low && p.kh > 64 ? "strips would be lower than two windows" : nullptr;
}

// Conversions of both images, to float32 and back, cost less than the row results that TWO_PASS keeps in memory. us,
// one NVIDIA H100, TWO_PASS and by float32, of float16 | of uint8:
//
//     3000^2                                             255x255 639 536 | 621 533
//     4096^2           191x191 890 609 | 861 599         255x255 1078 793 | 1058 781
//     8192^2                                             255x255 4191 2564 | 4094 2514
//     4x3x1080x1920                                      255x255 1650 1321 | 1629 1309
//     16x3x1080x1920   191x191 5136 3407 | 5014 3340     255x255 6350 4558 | 6288 4486
//
// Windows of fewer taps along an axis, and rows whose columns have other strides in the result, were not measured.
constexpr int64_t kLeastTapsByFloat32 = 128;
inline bool converts_to_float32(const Separable& p) {
  const bool converts = p.in.dtype != Dtype::f32 || p.out.dtype != Dtype::f32;
  return std::min(p.kh, p.kw) >= kLeastTapsByFloat32 && converts && p.in.stride_w == p.out.stride_w &&
         p.in.dtype != Dtype::f64;
}
inline bool float32_may_be_faster(const Separable& p, const Plan& plan) {
  return plan.launches > 1 && converts_to_float32(p);
}

// LINE_BUFFER is faster than TWO_PASS in strips of some windows, as RING is. us, one NVIDIA H200, LINE_BUFFER,
// TWO_PASS, and by float32 | by RING:
//
//     uint16   4x2048^2   63x63 182 398    127x127 440 606    191x191 652 873 571    255x255 870 1071 750
//                         3x1001 1273 1667
//     float32  4096^2                      127x127 441 623                           255x255 877 1073 | 701
inline const char* line_buffer_is_slower(const Separable& p, const Arch& arch) {
  Separable wide = p;
  wide.in.dtype = wide.out.dtype = Dtype::f32;
  const bool by_ring = converts_to_float32(p) && !ring_unaligned_refusal(wide, arch);
  if (by_ring) return "conversions to float32 and back are faster for as many taps";
  const LineTile t = widest_line_tile(p, arch);
  const int64_t window = (p.kh - 1) * p.place.dilation_y + 1;
  const bool low = line_steps(p, t, arch) * kLineRows * p.place.stride_y < 2 * window;
  if (low && window > 129) return "strips would be lower than two windows";
  // Not measured: tiles that are narrow only because wider ones do not fit.
  const bool narrowed = p.out.w > t.pixels && 2 * t.columns() <= kLineWarps * line_reuse(p);
  return narrowed && t.span > 3 * t.columns() ? "most of a tile's row would be halo" : nullptr;
}

// TILE and STRIP hold part of one plane, a tile row of LINE_BUFFER several narrow planes. us, one NVIDIA H200, TILE,
// STRIP and LINE_BUFFER: float16 32x256x28x28 7x7 189 215 61. Few planes were not measured.
inline const char* line_buffer_is_faster(const Separable& p, const Arch& arch) {
  if (line_buffer_refusal(p, arch)) return nullptr;
  const LineTile t = widest_line_tile(p, arch);
  const bool many = t.planes >= 4 && line_grid(p.out, t, kLineRows) >= 4 * arch.multiprocessors;
  return many ? "line buffers are faster for many narrow planes" : nullptr;
}

// us, one NVIDIA H200, LINE_BUFFER (uint16, HWC images) or STRIP (float16, uint8), and TYPED_RING:
//
//                                 3x3        5x5       6x6     9x9      17x17     31x31     63x63
//     uint16   8x2048^2         92 63      99 73             113 84    145 113   201 164   347 293
//              120x512^2        95 66     102 76             117 88    150 119   206 176   358 355
//              HWC 16x3x1080p            384 184   401 192
//     float16  8x2048^2                             86 76
//     uint8    8x2048^2                             88 71
//              HWC 16x3x1080p                      387 188
//
// Its kernel with float32 in RING's place takes 0.94 to 1.06 of RING's time up to 9 taps and 1.11 to 1.37 from 15 to
// 63: the loops over taps at run time. TILE takes 106 for HWC 5x5 of bytes, where six taps take TYPED_RING 188; planes
// that TILE serves were not measured. Small images, STRIP | LINE_BUFFER | TYPED_RING:
//
//                          float16 4x4      uint8 6x6        uint16 4x4     uint16 18x18
//     2048x64^2            62 | 42 | 48     76 | 43 | 50     42 | 46        61 | 94
//     1024x96^2            41 | 47 | 35     50 | 49 | 36     48 | 34        71 | 68
//     256x160^2            44 | 37 | 27     52 | 39 | 29     38 | 26        57 | 50
//     200x256^2            36 | 54 | 44     44 | 56 | 44     55 | 42        84 | 72
//     1024^2                6 | 8.3 | 7.6   6.9 | 9.1 | 7.8  8.7 | 7.7      11 | 11.7
//     512^2               4.7 | 7 | 7.3     5.6 | 7.1 | 7.2    7 | 7        8.2 | 10.1
inline const char* typed_ring_is_slower(const Separable& p, const Arch& arch) {
  if (!tile_refusal(p, arch)) return "tiles are faster for an odd size up to 15";
  const int64_t elements = elements_of(p.out);
  if (!strip_refusal(p, arch) && p.out.w >= 192 && elements < 1 << 24) return "strips are faster on small images";
  if (line_buffer_refusal(p, arch)) return nullptr;
  if (p.out.w * hwc_channels(p) <= 64) return "line buffers are faster for narrow planes";
  const bool small = elements <= 1 << 20 && std::max(p.kh, p.kw) > 16;
  return small ? "line buffers are faster for many taps on small images" : nullptr;
}

}  // namespace torch_conv::separable2d
