// The images that `reg` serves, and its plan.
#pragma once

#include "kernels/direct2d/config.h"
#include "kernels/direct2d/reg/params.h"

namespace torch_conv::direct2d {

void launch_reg(const Direct& p, const Plan& plan, const Site& site);

inline const char* reg_refusal(const Direct& p, const Arch&) {
  const int bytes = size_of(p.in.dtype);
  if (const char* no = planar_refusal(p)) return no;
  if (bytes == 1) return "uint8";
  if (p.kh != p.kw || !(p.kh == 3 || (p.kh == 5 && bytes == 4))) return "no 3x3, and no 5x5 of float32";
  if (p.place.pad_x != p.kw / 2) return "a window off the middle";
  return aligned_rows(p.in) && aligned_rows(p.out) ? nullptr : "rows not 16-byte aligned";
}

inline void configure_reg(const Direct& p, const Arch&, Plan& plan) {
  const int bytes = size_of(p.in.dtype), k = int(p.kh);
  plan.why = "small odd window, aligned rows: every row load in flight, neighbours by shuffle";
  plan.tile_w = 30 * 16 / bytes;
  plan.tile_h = kRegWarps * reg_rows(bytes, k);
  plan.threads = 32 * kRegWarps;
  plan.blocks = p.out.n * p.out.c * ceil_div(p.out.h, plan.tile_h) * ceil_div(p.out.w, plan.tile_w);
  plan.kernels = {
      kernel_of("kernels/direct2d/reg/kernel.cuh", "direct2d::direct2d_reg", {p.in.dtype, k, p.bias != nullptr})};
}

}  // namespace torch_conv::direct2d
