// STEP: a lane takes 4 channels of one step.
#pragma once

#include "kernels/causal/shared/params.h"

namespace torch_conv::causal {

constexpr int kStepThreads = 128;

}  // namespace torch_conv::causal
