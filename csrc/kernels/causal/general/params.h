// GENERAL: the parameters.
#pragma once

#include "kernels/causal/shared/params.h"

namespace torch_conv::causal {

struct GeneralArgs {
  CausalConv p;
  int64_t fours;        // groups of four outputs a sequence and channel
  int64_t threads;      // that compute; behind them one for each element of `after`
  int64_t all;          // in all
  bool channels_inner;  // lanes follow the channels, which are innermost in memory
};

}  // namespace torch_conv::causal
