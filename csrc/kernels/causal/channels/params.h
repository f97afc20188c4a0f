// CHANNELS: the tile of a lane, and the parameters.
#pragma once

#include "kernels/causal/shared/params.h"

namespace torch_conv::causal {

// CHANNELS: a lane takes kChannels channels over kSteps steps; the warps of a block follow one another along L.
constexpr int kChannels = 4;  // 8: 0.968 of copy, 4: 0.994 (one NVIDIA H200, bf16 16x4096x2048 k = 4, channels last)
constexpr int kSteps = 8;     // 16: 0.988, 32: 0.972
constexpr int kChannelsWarps = 4;

struct ChannelsArgs {
  CausalConv p;
  Starts x, out;
  Divisor across, along;  // blocks over the channels, over the length
};

}  // namespace torch_conv::causal
