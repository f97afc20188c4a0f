// UPDATE, for widths up to 4, and GENERAL, for any, of updates of a state. Pure.
#pragma once

#include "kernels/causal/config.h"

namespace torch_conv::causal {

// Of all updates of a state, STEP included.
void launch_update(const CausalUpdate& p, const Plan& plan, const Site& site);

inline int64_t update_blocks(const CausalUpdate& p) { return p.n * ceil_div(p.c, 128); }

inline const char* update_general_refusal(const CausalUpdate& p, const Arch&) {
  return below(kLargestGrid, {update_blocks(p)}) ? nullptr : "2^31 blocks";
}
inline const char* update_refusal(const CausalUpdate& p, const Arch& arch) {
  return p.k > 4 ? "a width above 4" : update_general_refusal(p, arch);
}

inline void configure_update_general(const CausalUpdate& p, const Arch&, Plan& plan) {
  plan.why = "a thread a channel, any width";
  plan.tile_w = 128;
  plan.tile_h = 1;
  plan.threads = 128;
  plan.blocks = update_blocks(p);
  plan.kernels = {kernel_of("kernels/causal/update/kernel.cuh", "causal::causal_update_general", {p.dtype, p.weights})};
}
inline void configure_update(const CausalUpdate& p, const Arch& arch, Plan& plan) {
  configure_update_general(p, arch, plan);
  plan.why = "a thread a channel, one trip to memory";
  plan.kernels = {kernel_of("kernels/causal/update/kernel.cuh", "causal::causal_update",
                            {p.dtype, p.weights, int(p.k), p.silu, p.used != nullptr})};
}

}  // namespace torch_conv::causal
