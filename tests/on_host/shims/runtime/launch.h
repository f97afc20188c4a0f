// Launches of a plan on the host: a program lists its kernels, and csrc's launch.cpp runs them.
#pragma once

#include <any>
#include <map>
#include <string>

#include "cuda.h"
#include "core/plan.h"

namespace torch_conv {

struct Site {};

// By name: functions whose parameters are the kernel's.
inline std::map<std::string, std::any> kernels_on_host;

template <typename... Parameters>
void launch(const Plan& plan, const Site&, const Parameters&... parameters) {
  const auto kernel = std::any_cast<void (*)(Parameters...)>(kernels_on_host.at(plan.kernels[0].name));
  on_host::launch(kernel, {unsigned(plan.blocks), 1, 1}, plan.threads, parameters...);
}

}  // namespace torch_conv
