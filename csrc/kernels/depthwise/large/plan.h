// LARGE: large windows by multiply-adds.
#pragma once

#include "kernels/depthwise/config.h"
#include "kernels/depthwise/large/params.h"

namespace torch_conv::depthwise {

void launch_large(const Depthwise& p, const Plan& plan, const Site& site);

inline LargeShape large_shape(const Depthwise& p, int side, int images) {
  LargeShape s;
  const int kh = int(p.kh), kw = int(p.kw);
  s.side = side, s.images = images, s.strips = 32 / side / images;
  const int wide = side * kLargeColumns;
  s.tiles_y = int(ceil_div(p.out.h, 64)), s.tiles_x = int(ceil_div(p.out.w, 64));
  s.tile_h = int(ceil_div(p.out.h, s.tiles_y));
  s.column_tiles = int(ceil_div(ceil_div(p.out.w, s.tiles_x), wide));
  s.tile_w = s.column_tiles * wide;
  s.tiles_x = int(ceil_div(p.out.w, s.tile_w));
  s.strip_rows = int(ceil_div(s.tile_h, s.strips));
  s.row_groups = int(ceil_div(s.strip_rows, kLargeRows));
  s.slab_columns = int(round_up(s.tile_w + kw - 1, 4));
  // Neighbouring slabs are 16 bytes apart modulo 32, so that 8 lanes read different banks.
  const auto filler = [](int bytes) { return ((16 - bytes) % 32 + 32) % 32; };
  const int rows = int(std::min<int64_t>(p.in.h, s.tile_h + kh - 1));
  s.pitch = 4 * s.slab_columns;
  s.gap = s.strips == 1 ? 0 : filler(s.strip_rows * s.pitch);
  s.strip_stride = s.strip_rows * s.pitch + s.gap;
  const int slab = rows * s.pitch + (rows / s.strip_rows + 2) * s.gap;
  s.image_stride = slab + filler(slab);
  s.shared_bytes = kLargeZeroRow + kh * int(round_up(kw, 4)) * 4 + images * s.image_stride;
  s.warps = std::min(8, s.row_groups * s.column_tiles);
  return s;
}

// The images of a block let a second block fit. Small batches have fewer.
inline LargeShape large_shape(const Depthwise& p, const Arch& arch) {
  const int side = p.out.w <= kLargeColumns ? 1 : p.out.w <= 2 * kLargeColumns ? 2 : 4;
  int images = 32 / side;
  while (images > 1 &&
         (images / 2 >= p.out.n || large_shape(p, side, images).shared_bytes > (arch.shared_bytes - 2048) / 2))
    images /= 2;
  return large_shape(p, side, images);
}

inline const char* large_refusal(const Depthwise& p, const Arch& arch) {
  if (p.in.dtype == Dtype::f64 || is_integer(p.in.dtype) || p.out.dtype != p.in.dtype || p.weights != p.in.dtype)
    return "no float32, float16 or bfloat16";
  if (!p.place.unit_steps_of_images()) return "stride or dilation";
  if (!rows_inner(p.in) || !rows_inner(p.out)) return "pixels of a row are not contiguous";
  if (p.kh > 33 || p.kw > 33) return "a window larger than 33x33";
  if (p.place.pad_y < 0 || p.place.pad_y >= p.kh || p.place.pad_x < 0 || p.place.pad_x >= p.kw)
    return "padding not smaller than the window";
  if (!below(kMostSide, {p.in.h, p.in.w, p.out.h, p.out.w, p.out.n, p.out.c})) return "an axis of 2^30";
  if (double(p.out.n * p.out.c) * double(ceil_div(p.out.h, 32) * ceil_div(p.out.w, 32)) >= 1 << 30) return "2^30 tiles";
  return large_shape(p, arch).shared_bytes > arch.shared_bytes ? "too little shared memory" : nullptr;
}

// us on one NVIDIA H200:
//
//                              31x31   13x13
//     float32  64x384x32x32     1035     439
//              1x384x32x32        66
//              64x768x14x14              266
//     float16  64x384x32x32      974
//
inline void configure_large(const Depthwise& p, const Arch& arch, Plan& plan) {
  const LargeShape s = large_shape(p, arch);
  plan.why = "rows in registers, broadcast taps";
  plan.tile_w = s.tile_w;
  plan.tile_h = s.tile_h;
  plan.threads = 32 * s.warps;
  plan.shared_bytes = s.shared_bytes;
  plan.blocks = p.out.c * ceil_div(p.out.n, s.images) * s.tiles_y * s.tiles_x;
  plan.kernels = {kernel_of("kernels/depthwise/large/kernel.cuh", "depthwise::depthwise_large",
                            {p.in.dtype, argument_of(p.activation), int(p.kw), s.side})};
  plan.config = s;
}

}  // namespace torch_conv::depthwise
