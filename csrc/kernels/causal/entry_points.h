// The entry points of this kernel family, as kernels/families.h has them of the others.
#pragma once

#include <algorithm>

#include "kernels/causal/problem.h"
#include "kernels/families.h"

namespace torch_conv::causal {

Plan plan_cpu(const CausalConv& p, const char* variant);
void run_cpu(const CausalConv& p, const Plan& plan);
Plan plan_cuda(const CausalConv& p, const Arch& arch, const char* variant);
void run_cuda(const CausalConv& p, const Plan& plan, const Site& site);

Plan plan_update_cpu(const CausalUpdate& p, const char* variant);
void run_update_cpu(const CausalUpdate& p, const Plan& plan);
Plan plan_update_cuda(const CausalUpdate& p, const Arch& arch, const char* variant);
void run_update_cuda(const CausalUpdate& p, const Plan& plan, const Site& site);

// The plan without a variant, of both devices: bytes of x, out, `before` and `after`.
inline Plan base_plan(const CausalConv& p) {
  const double channels = double(p.n) * double(p.c);
  const int64_t states = (p.before.data != nullptr) + (p.after.data != nullptr);
  return {.algorithm = "causal",
          .bytes = channels * double(2 * p.l + states * (p.k - 1)) * size_of(p.dtype),
          .flops = 2 * channels * double(p.k) * double(p.l)};
}

// A call reads the elements of a state that windows use or that move, and writes all; in a ring it writes only new
// elements.
inline Plan base_plan(const CausalUpdate& p) {
  const double channels = double(p.n) * double(p.c);
  const int64_t read = p.used ? p.k - 1 : std::max(p.k - 1, p.state_l - p.l);
  const int64_t written = p.used ? std::min(p.l, p.state_l) : p.state_l;
  return {.algorithm = "causal",
          .bytes = channels * double(2 * p.l + (p.l > 0 ? read + written : 0)) * size_of(p.dtype),
          .flops = 2 * channels * double(p.k) * double(p.l)};
}

}  // namespace torch_conv::causal
