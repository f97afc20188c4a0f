// The variants of this kernel family, in the order of preference.
#pragma once

#include "kernels/direct3d/channels/plan.h"
#include "kernels/direct3d/general/plan.h"
#include "kernels/direct3d/planes/plan.h"
#include "kernels/direct3d/streaming/plan.h"
#include "kernels/direct3d/tuning.h"
#include "kernels/direct3d/window/plan.h"

namespace torch_conv::direct3d {

constexpr Candidate<Direct> kCandidates[] = {
    {"channels", channels_refusal, nullptr, configure_channels, launch_channels},
    {"planes", planes_refusal, planes_is_slower, configure_planes, launch_planes},
    {"streaming_tma", streaming_tma_refusal, nullptr, configure_streaming_tma, launch_streaming},
    {"streaming", streaming_refusal, nullptr, configure_streaming_plain, launch_streaming},
    {"window", window_refusal, nullptr, configure_window, launch_window},
    {"general", general_refusal, nullptr, configure_general, launch_general},
};

// Variants for shards of a volume that is cut along d: `streaming` alone reads planes of other shards.
constexpr Candidate<Direct> kOfShards[] = {
    {"streaming_tma", streaming_tma_refusal, streaming_tma_of_shards_is_slower, configure_streaming_tma,
     launch_streaming},
    {"streaming", plain_shards_refusal, streaming_of_shards_is_slower, configure_streaming_plain, launch_streaming},
};

inline Plan plan_cuda(const Direct& p, const Arch& arch, const char* pinned) {
  const Plan base{.algorithm = "direct",
                  .bytes = bytes_of(p.in) + bytes_of(p.out),
                  .flops = 2.0 * double(p.kd * p.kh * p.kw * (p.in.c / p.groups)) * elements_of(p.out)};
  return p.peers.any() ? choose(kOfShards, p, arch, pinned, base) : choose(kCandidates, p, arch, pinned, base);
}

}  // namespace torch_conv::direct3d
