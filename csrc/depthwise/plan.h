// Depthwise + Arch -> Plan: which kernel serves the problem; each variant's own part stands in plan_VARIANT.h. Pure.
#pragma once

#include "depthwise/plan_general.h"

namespace torch_conv::depthwise {

constexpr Candidate<Depthwise> kCandidates[] = {
    {"general", general_refusal, nullptr, configure_general},
};

inline Plan plan(const Depthwise& p, const Arch& arch, const char* pinned) {
  const double outputs = double(p.out.n * p.out.c) * double(p.out.h * p.out.w);
  return choose(kCandidates, p, arch, pinned,
                {.algorithm = "depthwise",
                 .bytes = double(p.in.n * p.in.c) * double(p.in.h * p.in.w) * size_of(p.in.dtype) +
                          outputs * size_of(p.out.dtype),
                 .flops = 2.0 * double(p.kh * p.kw) * outputs});
}

}  // namespace torch_conv::depthwise
