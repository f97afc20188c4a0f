// Environment variables for tests and benchmarks, which change the launches of a call or forbid replays.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

namespace torch_conv {

// The value of a variable; "" if the variable is not set.
inline const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}
// The variant that TORCH_CONV_VARIANT pins, or "".
inline const char* pinned_variant() { return environment("TORCH_CONV_VARIANT"); }
// Whether any TORCH_CONV_... is set, by one pass over the environment. No thread may change the environment then, as
// for getenv.
inline bool environment_steers() {
  for (char** entry = environ; entry && *entry; ++entry)
    if (**entry == 'T' && std::strncmp(*entry, "TORCH_CONV_", 11) == 0) return true;
  return false;
}

constexpr const char* kSteering[] = {"TORCH_CONV_NO_TMA", "TORCH_CONV_NO_PEER", "TORCH_CONV_SIDE_STREAMS"};
// TORCH_CONV_NO_STEPS is the old name of TORCH_CONV_NO_GRAPH.
constexpr const char* kForbidding[] = {"TORCH_CONV_VARIANT", "TORCH_CONV_NO_GRAPH", "TORCH_CONV_NO_STEPS"};

inline bool any_set(std::span<const char* const> names) {
  return std::any_of(names.begin(), names.end(), [](const char* name) { return *environment(name) != '\0'; });
}

}  // namespace torch_conv
