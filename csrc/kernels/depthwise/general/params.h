// GENERAL: the parameters of its kernel.
#pragma once

#include "core/problem.h"

namespace torch_conv::depthwise {

struct DepthwiseGeneralArgs {
  Depthwise p;
  int64_t groups_of_four;  // per row
  int64_t threads;         // in all
  bool channels_inner;     // lanes follow the channels, the innermost axis in memory
};

}  // namespace torch_conv::depthwise
