// `general` serves every volume.
#pragma once

#include "kernels/direct3d/config.h"

namespace torch_conv::direct3d {

void launch_general(const Direct& p, const Plan& plan, const Site& site);

inline const char* general_refusal(const Direct&, const Arch&) { return nullptr; }

inline void configure_general(const Direct& p, const Arch&, Plan& plan) {
  plan.why = "any window, stride, dilation, dtype pair and layout";
  plan.tile_w = 4;
  plan.tile_h = plan.tile_d = 1;
  plan.threads = 256;
  plan.blocks = ceil_div(p.out.n * p.out.c * p.out.d * p.out.h * ceil_div(p.out.w, 4), plan.threads);
  plan.kernels = {kernel_of("kernels/direct3d/general/kernel.cuh", "direct3d::direct3d_general", {p.in.dtype})};
}

}  // namespace torch_conv::direct3d
