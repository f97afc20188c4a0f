// What GENERAL's launch and kernel agree on.
#pragma once

#include "core/problem.h"

namespace torch_conv::depthwise {

struct GeneralArgs {
  Depthwise p;
  int64_t groups_of_four;  // per row
  int64_t threads;         // in all
  bool channels_inner;     // lanes follow the channels, which lie innermost in memory
};

}  // namespace torch_conv::depthwise
