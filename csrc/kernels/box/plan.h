// Box and BoxDepth + Arch -> Plan: the variants of this kernel family in the order of preference. Pure.
#pragma once

#include "kernels/box/bytes/plan.h"
#include "kernels/box/depth/groups/plan.h"
#include "kernels/box/depth/ring/plan.h"
#include "kernels/box/depth/running/plan.h"
#include "kernels/box/groups/plan.h"
#include "kernels/box/plain/plan.h"
#include "kernels/box/streaming/plan.h"
#include "kernels/box/strips/plan.h"

namespace torch_conv::box {

// In the order of preference, by the measurements in tuning.h.
constexpr Candidate<Box> kCandidates[] = {
    {"bytes", bytes_refusal, nullptr, configure_bytes, launch_bytes},
    {"streaming", streaming_refusal, nullptr, configure_streaming, launch_streaming},
    {"plain", plain_refusal, nullptr, configure_plain, launch_plain},
    {"strips", strips_refusal, nullptr, configure_strips, launch_strips},
    {"groups", groups_refusal, nullptr, configure_groups, launch_groups},
};
constexpr Candidate<BoxDepth> kDepthCandidates[] = {
    {"depth_ring", depth_ring_refusal, nullptr, configure_depth_ring, launch_depth},
    {"depth_groups", depth_groups_refusal, nullptr, configure_depth_groups, launch_depth},
    {"depth", depth_refusal, nullptr, configure_depth, launch_depth},
};

inline Plan plan_cuda(const Box& p, const Arch& arch, const char* pinned) {
  return choose(kCandidates, p, arch, pinned,
                {.algorithm = "box",
                 .bytes = bytes_of(p.in) + bytes_of(p.out),
                 // A row enters and leaves, then one difference of prefix sums.
                 .flops = 4.0 * elements_of(p.out)});
}

}  // namespace torch_conv::box
