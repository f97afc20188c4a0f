// GENERAL: serves every causal convolution. Pure.
#pragma once

#include "kernels/causal/config.h"
#include "kernels/causal/general/params.h"

namespace torch_conv::causal {

void launch_general(const CausalConv& p, const Plan& plan, const Site& site);

inline const char* general_refusal(const CausalConv&, const Arch&) { return nullptr; }

inline int64_t general_threads(const CausalConv& p) { return p.n * p.c * ceil_div(p.l, 4); }
inline int64_t general_all(const CausalConv& p) {
  return general_threads(p) + (p.after.data ? p.n * p.c * (p.k - 1) : 0);
}

inline void configure_general(const CausalConv& p, const Arch&, Plan& plan) {
  plan.why = "any width, dtype, layout, states and sequences";
  plan.tile_w = 4;
  plan.tile_h = 1;
  plan.threads = 256;
  plan.blocks = ceil_div(general_all(p), plan.threads);
  plan.kernels = {kernel_of("kernels/causal/general/kernel.cuh", "causal::causal_general", {p.dtype, p.weights})};
}

}  // namespace torch_conv::causal
