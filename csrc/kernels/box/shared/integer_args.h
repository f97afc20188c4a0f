// Plan -> the parameters of the variants for integers.
#pragma once

#include "kernels/box/config.h"
#include "kernels/box/shared/integer_params.h"
#include "kernels/box/streaming/params.h"

namespace torch_conv::box {

// Bytes from row to row if all rows of all planes are dense and start on aligned vectors, else 0.
inline int pack_pitch(const Image& x) {
  const int64_t v = columns_per_thread(size_of(x.dtype)), size = size_of(x.dtype);
  return x.stride_w == 1 && rows_start_on(x, v * size) && x.stride_h > 0 && x.stride_h * size <= INT_MAX
             ? int(x.stride_h * size)
             : 0;
}

inline IntegerArgs integer_args(const Box& p, const Plan& plan, bool carry) {
  const int tiles = int(ceil_div(p.out.w, plan.tile_w)), strips = int(ceil_div(p.out.h, plan.tile_h));
  const bool whole_tiles = tiles == 1 || plan.tile_w % columns_per_thread(size_of(p.out.dtype)) == 0;
  return {.in = p.in.data,
          .out = p.out.data,
          .in_stride_n = p.in.stride_n,
          .in_stride_c = p.in.stride_c,
          .in_stride_h = p.in.stride_h,
          .in_stride_w = p.in.stride_w,
          .out_stride_n = p.out.stride_n,
          .out_stride_c = p.out.stride_c,
          .out_stride_h = p.out.stride_h,
          .out_stride_w = p.out.stride_w,
          .planes = p.out.n * p.out.c,
          .channels = p.out.c,
          .work = plan.blocks,
          .in_h = int(p.in.h),
          .in_w = int(p.in.w),
          .out_h = int(p.out.h),
          .out_w = int(p.out.w),
          .kh = int(p.kh),
          .kw = int(p.kw),
          .pad_y = int(p.place.pad_y),
          .pad_x = int(p.place.pad_x),
          .tile_w = plan.tile_w,
          .strip_h = plan.tile_h,
          .tiles = tiles,
          .strips = strips,
          .carry = carry,
          .pack_pitch = pack_pitch(p.in),
          .out_packs = pack_pitch(p.out) > 0 && whole_tiles,
          .scale = p.scale,
          .value = p.place.value,
          .border = p.place.border,
          .finish = finish_of(p.place),
          .out_dtype = p.out.dtype};
}

}  // namespace torch_conv::box
