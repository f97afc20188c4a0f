// The launch of a plan.
#pragma once

#include <any>

#include "kernels/families.h"

namespace torch_conv::separable2d {

// What a launch needs besides the plan: the function that launches the plan's kernels, and a struct of the variant's.
struct Config {
  void (*launch)(const Separable& p, const Plan& plan, const Site& site);
  std::any own{};
};

// A variant's own struct.
template <typename T>
const T& own_config(const Plan& plan) {
  return *std::any_cast<T>(&std::any_cast<Config>(&plan.config)->own);
}

}  // namespace torch_conv::separable2d
