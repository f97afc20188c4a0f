// DEPTH_GROUPS: sums of floats along z, in the order of kernels/box/order.h. Pure.
#pragma once

#include "kernels/box/depth/shared/group_chunks.h"

namespace torch_conv::box {

inline const char* depth_groups_refusal(const BoxDepth& p, const Arch& arch) { return depth_floats_refusal(p, arch); }

inline void configure_depth_groups(const BoxDepth& p, const Arch& arch, Plan& plan) {
  const DepthConfig config{.runs = depth_runs(p), .ending = depth_ending(p)};
  const DepthRuns& runs = config.runs;
  const int64_t ring = depth_ring_bytes(p, runs);
  const bool fits = ring <= arch.shared_bytes;
  plan.why = "sums along z that groups of planes share";
  cut_depth_groups(p, arch, runs, ring, kDepthGroupBlocks, plan);
  constexpr const char* file = "kernels/box/depth/groups/kernel.cuh";
  const int kept = planes_kept(p), rest = kept > 0 ? 0 : int(rest_of(p.kd));
  const Kernel any = kernel_of(file, "box::box_depth_any", {p.sums.dtype, runs.pixels});
  const Kernel own =
      kernel_of(file, "box::box_depth_groups",
                {p.sums.dtype, runs.pixels, runs.pixels > 1 ? type_name(p.out.dtype) : "void", kept, rest});
  plan.kernels = {fits ? first_offered(arch, own, any) : any};
  plan.shared_bytes = plan.kernels[0].name == own.name ? int(ring) : 0;
  plan.config = config;
}

}  // namespace torch_conv::box
