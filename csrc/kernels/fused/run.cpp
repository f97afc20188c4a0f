// The kernel family's entry points on CUDA.
#include "kernels/fused/plan.h"

namespace torch_conv::fused {

Plan plan_cuda(const Fused& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const Fused& p, const Plan& plan, const Site& site) { launch_config(p, plan).launch(p, plan, site); }

}  // namespace torch_conv::fused
