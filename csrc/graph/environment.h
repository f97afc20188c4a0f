// Environment variables that change the launches of a call, or forbid replays.
#pragma once

#include <algorithm>
#include <span>

#include "tensors/call.h"

namespace torch_conv {

constexpr const char* kSteering[] = {"TORCH_CONV_NO_TMA", "TORCH_CONV_NO_PEER", "TORCH_CONV_SIDE_STREAMS"};
// TORCH_CONV_NO_STEPS is the old name of TORCH_CONV_NO_GRAPH.
constexpr const char* kForbidding[] = {"TORCH_CONV_VARIANT", "TORCH_CONV_NO_GRAPH", "TORCH_CONV_NO_STEPS"};

inline bool any_set(std::span<const char* const> names) {
  return std::any_of(names.begin(), names.end(), [](const char* name) { return *environment(name) != '\0'; });
}

}  // namespace torch_conv
