// Fused + Arch -> Plan: the one variant of this kernel family. Pure.
#pragma once

#include "kernels/fused3d/streaming/plan.h"

namespace torch_conv::fused3d {

constexpr Candidate<Fused> kCandidates[] = {
    {"streaming", streaming_refusal, nullptr, configure_streaming, launch_streaming}};

inline Plan plan_cuda(const Fused& p, const Arch& arch, const char* pinned) {
  Plan base;
  base.algorithm = "fused";
  base.bytes = bytes_of(p.in) + bytes_of(p.out) * p.stages[p.count - 1].outputs();
  for (int i = 0; i < p.count; ++i) {
    const Stage& s = p.stages[i];
    base.flops += 2.0 * elements_of(p.out) * double(s.kd + s.kh + s.kw) * s.windows;
  }
  return choose(kCandidates, p, arch, pinned, base);
}

}  // namespace torch_conv::fused3d
