// The variants in order of preference, with the measurements that decided it. The first variant that serves a problem
// is chosen. Only this file compares two variants. All times are us on one NVIDIA H200, unless a table names another
// GPU.
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

// BYTES is faster than STREAMING for every problem that it serves:
//
//     4096^2, k = 15           BYTES  STREAMING      4096^2                       BYTES  STREAMING
//       reflect                   19         70        k = 200                       37         99
//       circular                  19         66        k = 15, width 4093            28         94
//       constant                  19         66        k = 15, HWC, 3 channels       46        473
//       zero_output               20        150        15 x 700                      78         94
//       skip                      27        223      512^2, k = 5                   4.9        5.9
//       skip, k = 63              42        227
//
// STRIPS narrows its strips for tall windows, because GROUPS serves HWC images by 200x200 at 1.6 % of a copy's speed.
constexpr Candidate<Box> kCandidates[] = {
    {"bytes", bytes_refusal, nullptr, configure_bytes},
    {"streaming", streaming_refusal, nullptr, configure_streaming},
    {"plain", plain_refusal, nullptr, configure_plain},
    {"strips", strips_refusal, nullptr, configure_strips},
    {"groups", groups_refusal, nullptr, configure_groups},
};

// Boxes of k^3 of float32, both passes, on one NVIDIA H100. From 34 planes on a multiprocessor holds one block alone.
//
//     DEPTH_RING, DEPTH_GROUPS    k = 31        k = 41       k = 63       k = 73
//       256^3                   127, 153      142, 166     153, 173     197, 220
//       512^3                  887, 1057     960, 1118    964, 1119   1068, 1216
constexpr Candidate<BoxDepth> kDepthCandidates[] = {
    {"depth_ring", depth_ring_refusal, nullptr, configure_depth_ring},
    {"depth_groups", depth_groups_refusal, nullptr, configure_depth_groups},
    {"depth", depth_refusal, nullptr, configure_depth},
};

}  // namespace torch_conv::box
