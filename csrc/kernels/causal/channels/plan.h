// CHANNELS: which problems it serves, and its blocks. Pure.
#pragma once

#include "kernels/causal/channels/params.h"
#include "kernels/causal/config.h"

namespace torch_conv::causal {

void launch_channels(const CausalConv& p, const Plan& plan, const Site& site);

inline int64_t blocks_across(const CausalConv& p) { return ceil_div(p.c, 32 * kChannels); }
inline int64_t blocks_along(const CausalConv& p) { return ceil_div(p.l, kSteps * kChannelsWarps); }

inline const char* channels_refusal(const CausalConv& p, const Arch&) {
  if (const char* no = narrow_refusal(p)) return no;
  if (!channels_inner(p.x, p.c) || !channels_inner(p.out, p.c)) return "channels are not innermost";
  if (p.c % kChannels != 0) return "channels no multiple of 4";
  const int64_t bytes = kChannels * size_of(p.dtype);
  const Signal& b = p.before;  // elements before the start are read in vectors too
  if (b.data && (b.stride_c != 1 || !on(b.data, bytes) || b.stride_n % kChannels != 0 || b.stride_l % kChannels != 0))
    return "initial states of another layout";
  const auto whole = [&](const Signal& s) {
    return on(s.data, bytes) && (p.n == 1 || s.stride_n % kChannels == 0) && (p.l == 1 || s.stride_l % kChannels == 0);
  };
  if (!whole(p.x) || !whole(p.out)) return "steps do not start on whole vectors";
  if (!on(p.weight, 8) || !on(p.bias, 8)) return "taps or bias do not start on 8 bytes";
  return below(kLargestGrid, {p.n * blocks_across(p) * blocks_along(p)}) ? nullptr : "2^31 blocks";
}

inline void configure_channels(const CausalConv& p, const Arch&, Plan& plan) {
  plan.why = "a lane takes 4 channels over 8 steps";
  plan.tile_w = 32 * kChannels;
  plan.tile_h = kSteps * kChannelsWarps;
  plan.threads = kChannelsWarps * 32;
  plan.blocks = p.n * blocks_across(p) * blocks_along(p);
  plan.kernels = {kernel_of("kernels/causal/channels/kernel.cuh", "causal::causal_channels",
                            {p.dtype, p.weights, int(p.k), p.silu, p.sequences != nullptr})};
}

}  // namespace torch_conv::causal
