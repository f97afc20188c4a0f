// CausalConv and CausalUpdate + Arch -> Plan: the variants of this kernel family in the order of preference. Pure.
#pragma once

#include "kernels/causal/channels/plan.h"
#include "kernels/causal/general/plan.h"
#include "kernels/causal/rows/plan.h"
#include "kernels/causal/step/plan.h"
#include "kernels/causal/update/plan.h"

namespace torch_conv::causal {

// In the order of preference, by the measurements in tuning.h.
constexpr Candidate<CausalConv> kCandidates[] = {
    {"channels", channels_refusal, nullptr, configure_channels, launch_channels},
    {"rows", rows_refusal, nullptr, configure_rows, launch_rows},
    {"general", general_refusal, nullptr, configure_general, launch_general},
};

constexpr Candidate<CausalUpdate> kUpdateCandidates[] = {
    {"step", step_refusal, nullptr, configure_step, launch_update},
    {"update", update_refusal, nullptr, configure_update, launch_update},
    {"general", update_general_refusal, nullptr, configure_update_general, launch_update},
};

inline Plan plan_cuda(const CausalConv& p, const Arch& arch, const char* pinned) {
  return choose(kCandidates, p, arch, pinned, base_plan(p));
}

inline Plan plan_cuda(const CausalUpdate& p, const Arch& arch, const char* pinned) {
  return choose(kUpdateCandidates, p, arch, pinned, base_plan(p));
}

}  // namespace torch_conv::causal
