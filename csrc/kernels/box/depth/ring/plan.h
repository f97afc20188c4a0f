// DEPTH_RING: windows of more than 16 planes of floats, each read once. Pure.
#pragma once

#include "kernels/box/depth/ring/ring.h"
#include "kernels/box/depth/shared/group_chunks.h"

namespace torch_conv::box {

inline int64_t planes_ring_bytes(const BoxDepth& p, const DepthRuns& runs) {
  return int64_t(depth_ring_groups(p.kd)) * kGroup * kDepthThreads * 16 + depth_ring_bytes(p, runs);
}

inline const char* depth_ring_refusal(const BoxDepth& p, const Arch& arch) {
  if (const char* no = depth_floats_refusal(p, arch)) return no;
  if (planes_kept(p) > 0) return "registers hold windows of up to 16 planes";
  if (arch.major < 8) return "it needs asynchronous copies";
  const DepthRuns runs = depth_runs(p);
  if (runs.pixels == 1) return "no contiguous whole vectors of sums";
  return planes_ring_bytes(p, runs) > arch.shared_bytes ? "windows this deep leave no shared memory" : nullptr;
}

inline void configure_depth_ring(const BoxDepth& p, const Arch& arch, Plan& plan) {
  const DepthConfig config{.runs = depth_runs(p), .ending = depth_ending(p)};
  const int64_t ring = planes_ring_bytes(p, config.runs);
  plan.why = "sums along z that groups of planes share, planes in a ring";
  cut_depth_groups(p, arch, config.runs, ring, kDepthRingBlocks, plan);
  plan.kernels = {kernel_of("kernels/box/depth/ring/kernel.cuh", "box::box_depth_ring",
                            {p.sums.dtype, config.runs.pixels, type_name(p.out.dtype), int(rest_of(p.kd))})};
  plan.shared_bytes = int(ring);
  plan.config = config;
}

}  // namespace torch_conv::box
