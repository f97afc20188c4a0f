// `general` serves every image, and shards of one layout.
#pragma once

#include "kernels/direct2d/config.h"

namespace torch_conv::direct2d {

void launch_general(const Direct& p, const Plan& plan, const Site& site);

inline const char* general_refusal(const Direct& p, const Arch&) {
  return other_shards_fit(p) ? nullptr : "shards of another layout";
}

inline void configure_general(const Direct& p, const Arch&, Plan& plan) {
  plan.why = "any window, stride, dilation, dtype pair and layout";
  plan.tile_w = 4;
  plan.tile_h = 1;
  plan.threads = 256;
  plan.blocks = ceil_div(p.out.n * p.out.c * p.out.h * ceil_div(p.out.w, 4), plan.threads);
  plan.kernels = {kernel_of("kernels/direct2d/general/kernel.cuh", "direct2d::direct2d_general", {p.in.dtype})};
}

}  // namespace torch_conv::direct2d
