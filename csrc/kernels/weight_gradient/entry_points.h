// The entry points of this family; kernels/families.h has the others'. On the CPU the operator hands the work to
// torch.
#pragma once

#include "kernels/families.h"
#include "kernels/weight_gradient/problem.h"

namespace torch_conv::weight_gradient {

// Do channels lie innermost in memory? Else rows of pixels do.
inline bool channels_innermost(const Image& x) {
  return x.stride_c == 1 && x.c > 1 && (x.w > 1 ? x.stride_w : x.stride_h) != 1;
}

// A plan has no variant for what the kernel family does not serve.
Plan plan_cuda(const WeightGradient& p, const Arch& arch, const char* variant);
void run_cuda(const WeightGradient& p, const Plan& plan, const Site& site);

}  // namespace torch_conv::weight_gradient
