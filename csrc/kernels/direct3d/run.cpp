// The kernel family's entry points on CUDA.
#include "kernels/direct3d/plan.h"

namespace torch_conv::direct3d {

Plan plan_cuda(const Direct& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const Direct& p, const Plan& plan, const Site& site) { launch_config(p, plan).launch(p, plan, site); }

}  // namespace torch_conv::direct3d
