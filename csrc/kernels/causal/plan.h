// CausalConv and CausalUpdate + Arch -> Plan. VARIANT/plan.h says which problems a variant serves and how. Pure.
#pragma once

#include "kernels/causal/tuning.h"

namespace torch_conv::causal {

inline Plan plan(const CausalConv& p, const Arch& arch, const char* pinned) {
  return choose(kCandidates, p, arch, pinned, base_plan(p));
}

inline Plan plan(const CausalUpdate& p, const Arch& arch, const char* pinned) {
  return choose(kUpdateCandidates, p, arch, pinned, base_plan(p));
}

}  // namespace torch_conv::causal
