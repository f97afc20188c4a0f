// The windows of width 1 that `column` serves, and its plan.
#pragma once

#include "kernels/direct2d/column/params.h"
#include "kernels/direct2d/config.h"

namespace torch_conv::direct2d {

void launch_column(const Direct& p, const Plan& plan, const Site& site);

inline const char* column_refusal(const Direct& p, const Arch&) {
  const Direct column = flattened(p);
  const Placement& s = column.place;
  if (column.kw != 1 || column.kh < 2) return "a window wider than 1";
  if (p.peers.any()) return "reads no other shards";
  if (!p.place.unit_steps_of_images()) return "stride or dilation";
  if (s.pad_x != 0 || column.out.w > column.in.w) return "columns outside the image";
  if (s.border == Border::skip) return "border 'skip'";
  if (column.in.stride_w != 1 || column.out.stride_w != 1) return "pixels of a row are not contiguous";
  if (column.in.c != column.groups) return "sums over channels";
  if (!below(kMostSide, {column.in.h, column.in.w, column.out.h, column.kh, s.pad_y + column.kh}))
    return "2^30 rows or columns";
  const bool offsets = column.in.stride_h >= 0 && column.in.stride_h * size_of(column.in.dtype) < (int64_t(1) << 32);
  return offsets ? nullptr : "rows 4 GiB apart";
}

// Columns of one thread: one load and one store, if both are aligned, else one column.
inline int column_pixels(const Direct& column) {
  const int n = column.in.dtype == Dtype::f64 ? 2 : 4;
  auto aligned = [&](const Image& x) { return rows_start_on(x, n * size_of(x.dtype)); };
  return column.out.w % n == 0 && aligned(column.in) && aligned(column.out) ? n : 1;
}

// Tall blocks share halos in L1. Small images take lower blocks, which fill the multiprocessors.
inline int column_warps(const Direct& column, int tile_w, const Arch& arch) {
  const int64_t stacks = column.out.n * column.out.c * ceil_div(column.out.w, tile_w);
  auto blocks = [&](int warps) { return stacks * ceil_div(column.out.h, warps * kColumnRows); };
  int warps = kColumnWarps;
  while (warps > 1 && (warps / 2 * kColumnRows >= column.out.h || blocks(warps) < 4 * arch.multiprocessors)) warps /= 2;
  return warps;
}

inline void configure_column(const Direct& p, const Arch& arch, Plan& plan) {
  const Direct column = flattened(p);
  const int pixels = column_pixels(column);
  const bool any = pixels == 1 || p.in.dtype != p.out.dtype;
  // A compiled height: the kernel loads all rows under a window of float32 before it uses the first.
  const bool fixed = !any && p.in.dtype == Dtype::f32 && p.kh <= 15;
  plan.why = "width 1: rows pass through registers";
  plan.tile_w = 32 * pixels;
  plan.threads = 32 * column_warps(column, plan.tile_w, arch);
  plan.tile_h = plan.threads / 32 * kColumnRows;
  plan.blocks = column.out.n * column.out.c * ceil_div(column.out.h, plan.tile_h) * ceil_div(column.out.w, plan.tile_w);
  plan.kernels = {kernel_of("kernels/direct2d/column/kernel.cuh", "direct2d::direct2d_column",
                            {p.in.dtype, pixels, any, fixed ? int(p.kh) : 0})};
}

}  // namespace torch_conv::direct2d
