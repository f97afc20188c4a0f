// GENERAL: STREAMING with window and strides at run time, for calls whose kernel is not compiled yet.
#pragma once

#include "kernels/weight_gradient/general/params.h"
#include "kernels/weight_gradient/streaming/plan.h"

namespace torch_conv::weight_gradient {

void launch_general(const WeightGradient& p, const Plan& plan, const Site& site);

constexpr int64_t kMostPartsOfGrid = 65535;

inline int64_t general_groups(const WeightGradient& p) { return ceil_div(p.kw, kTapsAtOnce); }

inline int64_t general_parts(const WeightGradient& p) { return p.kh * general_groups(p) + 1; }

inline GeneralArgs general_args(const WeightGradient& p, const GradientConfig& c, float* sums) {
  return {.sums = sums_args(p, c, sums),
          .policy = c.policy,
          .groups = int(general_groups(p)),
          .parts = int(general_parts(p))};
}

// Only a stand-in for STREAMING: its time beside torch's was not measured.
inline const char* general_is_slower(const WeightGradient&, const Arch&) { return "torch may be faster"; }

inline void configure_general(const WeightGradient& p, const Arch& arch, Plan& plan) {
  configure_streaming(p, arch, plan);
  const auto& c = own_config<GradientConfig>(plan);
  plan.why = "any window and stride, a few taps at a time";
  plan.blocks = c.splits * c.groups * std::min(general_parts(p), kMostPartsOfGrid);
  plan.kernels[0] =
      kernel_of("kernels/weight_gradient/general/kernel.cuh", "weight_gradient::weight_gradient_general", {p.in.dtype});
}

}  // namespace torch_conv::weight_gradient
