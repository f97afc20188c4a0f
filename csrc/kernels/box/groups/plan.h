// GROUPS: sums of floats in the order of kernels/box/order.h, of any window. Pure.
#pragma once

#include <algorithm>

#include "kernels/box/groups/params.h"
#include "kernels/box/shared/float_sums.h"

namespace torch_conv::box {

void launch_groups(const Box& p, const Plan& plan, const Site& site);

inline const char* groups_refusal(const Box& p, const Arch&) {
  return is_integer(p.in.dtype) ? kOnlyFloats : alone_refusal(p);
}

// Columns of the sums of 8 rows that fit in shared memory, s and t (kernels/box/groups/kernel.cuh).
inline int64_t group_columns(const Box& p, const Arch& arch) {
  return arch.shared_bytes / (2 * kGroup * acc_bytes(p.in.dtype));
}

inline void configure_groups(const Box& p, const Arch& arch, Plan& plan) {
  constexpr int64_t kTile = 256;
  const int64_t most = group_columns(p, arch) - p.kw + 1;
  const bool far = is_far(p.kw, p.whole_w), wide = far || most < 32;
  const int64_t tile = wide ? 32 : std::min({kTile, most, round_up(std::max<int64_t>(p.out.w, 1), 32)});
  const int size = acc_bytes(p.in.dtype);
  plan.why = "sums of 8 rows of windows at a time: any window";
  plan.tile_w = int(tile);
  plan.tile_h = kGroup;
  plan.threads = kGroupThreads;
  plan.shared_bytes = wide ? kGroup * kGroupThreads * size : int(2 * kGroup * (tile + p.kw - 1) * size);
  plan.blocks = p.out.n * p.out.c * ceil_div(p.out.w, tile) * ceil_div(p.out.h + group_phase(p), kGroup);
  plan.kernels = {kernel_of("kernels/box/groups/kernel.cuh",
                            far    ? "box::box_groups_far"
                            : wide ? "box::box_groups_wide"
                                   : "box::box_groups",
                            {p.in.dtype, sum_type(p)})};
}

inline GroupArgs group_args(const Box& p, const Plan& plan) {
  const int phase = group_phase(p);
  return {.in = p.in,
          .out = p.out,
          .work = plan.blocks,
          .kh = int(p.kh),
          .kw = int(p.kw),
          .pad_y = int(p.place.pad_y),
          .pad_x = int(p.place.pad_x),
          .tile_w = plan.tile_w,
          .tiles = int(ceil_div(p.out.w, plan.tile_w)),
          .groups = int(ceil_div(p.out.h + phase, kGroup)),
          .phase = phase,
          .divides = p.scale != 1,
          .far_h = is_far(p.kh, p.whole_h),
          .outside = p.place.border == Border::constant ? p.place.value : 0,
          .area = reciprocal_of(p.in.dtype == Dtype::f64, double(p.kh) * double(p.kw)),
          .border = p.place.border,
          .finish = float_finish_of(p.place)};
}

}  // namespace torch_conv::box
