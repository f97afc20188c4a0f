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
  const double inputs = double(p.in.n) * p.in.c * p.in.d * p.in.h * p.in.w;
  const double outputs = double(p.out.n) * p.out.c * p.out.d * p.out.h * p.out.w;
  return choose(kCandidates, p, arch, pinned,
                {.algorithm = "separable",
                 .bytes = inputs * size_of(p.in.dtype) + outputs * size_of(p.out.dtype),
                 .flops = 2.0 * outputs * double(p.kd + p.kh + p.kw)});
}

}  // namespace torch_conv::separable3d
