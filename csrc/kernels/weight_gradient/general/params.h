// GENERAL: the parameters of its kernel.
#pragma once

#include "kernels/weight_gradient/streaming/params.h"

namespace torch_conv::weight_gradient {

constexpr int kTapsAtOnce = 8;  // of a row

struct GeneralArgs {
  SumsArgs sums;
  StreamingPolicy policy;
  int groups;  // of kTapsAtOnce taps of a row
  int parts;   // groups of all rows of taps, and one for the bias
};

}  // namespace torch_conv::weight_gradient
