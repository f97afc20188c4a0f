// A plan's data for its launch, in families where every variant has a launch function of its own.
#pragma once

#include <any>

#include "core/plan.h"
#include "kernels/families.h"

namespace torch_conv {

// The function that launches the plan's kernels, and a struct of the variant's.
template <typename Problem>
struct LaunchConfig {
  void (*launch)(const Problem& p, const Plan& plan, const Site& site);
  std::any own{};
};

template <typename Problem>
const LaunchConfig<Problem>& launch_config(const Problem&, const Plan& plan) {
  return *std::any_cast<LaunchConfig<Problem>>(&plan.config);
}

// A variant's own struct.
template <typename T, typename Problem>
const T& own_config(const Problem& p, const Plan& plan) {
  return *std::any_cast<T>(&launch_config(p, plan).own);
}

}  // namespace torch_conv
