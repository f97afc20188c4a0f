// The images that `window` serves, and its plan.
#pragma once

#include "kernels/direct2d/config.h"
#include "kernels/direct2d/window/params.h"

namespace torch_conv::direct2d {

void launch_window(const Direct& p, const Plan& plan, const Site& site);

inline WindowShape window_shape(const Direct& p) {
  WindowShape s{.pitch = ceil_div(kWindowColumns + p.kw + 3, 4) * 4,
                .rows = kWindowWarps * kWindowRows + p.kh - 1,
                .tap_pitch = ceil_div(p.kw, 4) * 4};
  s.bytes = (s.pitch * s.rows + s.tap_pitch * p.kh) * acc_bytes(p.in.dtype);
  return s;
}

inline const char* window_refusal(const Direct& p, const Arch& arch) {
  if (!p.place.unit_steps_of_images()) return "stride or dilation";
  if (p.place.border == Border::skip) return "border 'skip'";
  if (p.kh > 512 || p.kw > 512 || window_shape(p).bytes > arch.shared_bytes) return "a window beyond shared memory";
  if (!below(kMostSide, {p.in.w, p.in.h, p.out.w, p.out.h})) return "2^30 rows or columns";
  return other_shards_fit(p) ? nullptr : "shards of another layout";
}

inline void configure_window(const Direct& p, const Arch&, Plan& plan) {
  const WindowShape shape = window_shape(p);
  plan.why = "stride and dilation 1: tile and taps in shared memory";
  plan.tile_w = kWindowColumns;
  plan.tile_h = kWindowWarps * kWindowRows;
  plan.threads = 32 * kWindowWarps;
  plan.shared_bytes = int(shape.bytes);
  plan.blocks = p.out.n * p.out.c * ceil_div(p.out.h, plan.tile_h) * ceil_div(p.out.w, plan.tile_w);
  plan.kernels = {kernel_of("kernels/direct2d/window/kernel.cuh", "direct2d::direct2d_window", {p.in.dtype})};
  plan.config = shape;
}

}  // namespace torch_conv::direct2d
