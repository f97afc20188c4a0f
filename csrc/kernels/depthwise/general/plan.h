// GENERAL: serves every problem of the kernel family.
#pragma once

#include "kernels/depthwise/config.h"

namespace torch_conv::depthwise {

void launch_general(const Depthwise& p, const Plan& plan, const Site& site);

inline const char* general_refusal(const Depthwise&, const Arch&) { return nullptr; }

inline void configure_general(const Depthwise& p, const Arch&, Plan& plan) {
  plan.why = "any window, stride, dilation, dtype and layout";
  plan.tile_w = 4;
  plan.tile_h = 1;
  plan.threads = 256;
  plan.blocks = ceil_div(p.out.n * p.out.c * p.out.h * ceil_div(p.out.w, 4), plan.threads);
  plan.kernels = {
      kernel_of("kernels/depthwise/general/kernel.cuh", "depthwise::depthwise_general", {p.in.dtype, p.weights})};
}

}  // namespace torch_conv::depthwise
