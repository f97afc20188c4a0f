// The kernel family's entry points on CUDA.
#include "kernels/causal/plan.h"
#include "runtime/launch.h"

namespace torch_conv::causal {

Plan plan_cuda(const CausalConv& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const CausalConv& p, const Plan& plan, const Site& site) { launch_config(p, plan).launch(p, plan, site); }

Plan plan_update_cuda(const CausalUpdate& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_update_cuda(const CausalUpdate& p, const Plan& plan, const Site& site) {
  launch(plan, site, UpdateArgs{.p = p, .across = Divisor::of(plan.blocks / p.n)});
}

}  // namespace torch_conv::causal
