// The variants in order of preference, with the measurement that decided it. The first variant that serves a problem is
// chosen. Only this file compares two variants.
#pragma once

#include "kernels/causal/channels/plan.h"
#include "kernels/causal/general/plan.h"
#include "kernels/causal/rows/plan.h"
#include "kernels/causal/step/plan.h"
#include "kernels/causal/update/plan.h"

namespace torch_conv::causal {

constexpr Candidate<CausalConv> kCandidates[] = {
    {"channels", channels_refusal, nullptr, configure_channels},
    {"rows", rows_refusal, nullptr, configure_rows},
    {"general", general_refusal, nullptr, configure_general},
};

// STEP, bf16, k = 4, silu, a step of 256 x 8192 channels on one NVIDIA H200: 13.0 us with states of 3 elements, 14.6 of
// 4, 12.5 with channels innermost, where UPDATE takes 38; at 1 x 2048 both take 1.8.
constexpr Candidate<CausalUpdate> kUpdateCandidates[] = {
    {"step", step_refusal, nullptr, configure_step},
    {"update", update_refusal, nullptr, configure_update},
    {"general", update_general_refusal, nullptr, configure_update_general},
};

}  // namespace torch_conv::causal
