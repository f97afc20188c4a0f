// Separable + Arch -> Plan: the variants of this kernel family in the order of preference. Pure.
#pragma once

#include "kernels/separable3d/streaming/plan.h"
#include "kernels/separable3d/tuning.h"

namespace torch_conv::separable3d {

constexpr Candidate<Separable> kCandidates[] = {
    {"streaming", streaming_bulk_refusal, streaming_is_slower, configure_streaming_bulk, launch_streaming},
    {"streaming_unaligned", streaming_unaligned_refusal, streaming_unaligned_is_slower, configure_streaming_unaligned,
     launch_streaming},
};

inline Plan plan_cuda(const Separable& p, const Arch& arch, const char* pinned) {
  return choose(kCandidates, p, arch, pinned,
                {.algorithm = "separable",
                 .bytes = bytes_of(p.in) + bytes_of(p.out),
                 .flops = 2.0 * elements_of(p.out) * double(p.kd + p.kh + p.kw)});
}

}  // namespace torch_conv::separable3d
