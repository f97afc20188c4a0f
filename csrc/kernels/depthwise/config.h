// What the plans of the family's variants share.
#pragma once

#include "core/activation.h"
#include "core/refusals.h"
#include "kernels/families.h"

namespace torch_conv::depthwise {

// What a launch needs besides the plan: the function that launches the plan's kernel, and a struct of its own.
struct Config {
  void (*launch)(const Depthwise& p, const Plan& plan, const Site& site);
  std::any own{};
};

// A variant's own struct.
template <typename T>
const T& own_config(const Plan& plan) {
  return *std::any_cast<T>(&std::any_cast<Config>(&plan.config)->own);
}

// Channels innermost in memory (channels_last), or rows of pixels that lie side by side.
inline bool channels_inner(const Image& x) { return x.stride_c == 1 && x.c > 1 && x.stride_w != 1; }
inline bool rows_inner(const Image& x) { return x.stride_w == 1 || x.w == 1; }

inline bool half_precision(Dtype d) { return d == Dtype::f16 || d == Dtype::bf16; }

}  // namespace torch_conv::depthwise
