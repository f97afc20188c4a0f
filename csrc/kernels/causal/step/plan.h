// STEP: which updates of a state by one step it serves. Pure.
#pragma once

#include "kernels/causal/config.h"
#include "kernels/causal/step/params.h"

namespace torch_conv::causal {

// Four channels of a state as words: the contiguous elements of each (`dense`), or one element of all of them.
inline bool dense_channels(const CausalUpdate& p) {
  return p.state.stride_l == 1 && p.state.stride_c == p.state_l && (p.state_l == p.k - 1 || p.state_l == p.k) &&
         on(p.state.data, 16) && p.state.stride_n * size_of(p.dtype) % 16 == 0;
}

inline const char* step_refusal(const CausalUpdate& p, const Arch&) {
  if (p.dtype == Dtype::f64) return "float64";
  if (p.k < 2 || p.k > 4) return "a width other than 2, 3 and 4";
  if (p.l != 1 || p.used) return "several steps, or a ring";
  const int64_t bytes = 4 * size_of(p.dtype);
  const auto whole = [&](const Signal& s) { return on(s.data, bytes) && s.stride_n % 4 == 0; };
  if (p.c % 4 != 0 || p.x.stride_c != 1 || p.out.stride_c != 1 || !whole(p.x) || !whole(p.out) || !whole(p.state))
    return "no whole vectors of channels";
  if (!on(p.weight, 8) || !on(p.bias, 8)) return "taps or bias do not start on 8 bytes";
  const bool inner = p.state.stride_c == 1 && p.state.stride_l % 4 == 0 && p.state_l == p.k - 1;
  if (!inner && !dense_channels(p)) return "a state of another layout";
  if (!below(kMostSide, {p.c})) return "2^30 channels";
  return below(kLargestGrid, {p.n * ceil_div(p.c, 4 * kStepThreads)}) ? nullptr : "2^31 blocks";
}

inline void configure_step(const CausalUpdate& p, const Arch&, Plan& plan) {
  plan.why = "a lane takes 4 channels over one step";
  plan.tile_w = 4 * kStepThreads;
  plan.tile_h = 1;
  plan.threads = kStepThreads;
  plan.blocks = p.n * ceil_div(p.c, 4 * kStepThreads);
  const bool dense = dense_channels(p);
  plan.kernels = {kernel_of("kernels/causal/step/kernel.cuh", "causal::causal_step",
                            {p.dtype, p.weights, int(p.k), p.silu, dense ? int(p.state_l) : 0})};
}

}  // namespace torch_conv::causal
