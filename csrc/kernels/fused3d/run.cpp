// The kernel family's entry points on CUDA.
#include "kernels/fused3d/plan.h"

namespace torch_conv::fused3d {

Plan plan_cuda(const Fused& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const Fused& p, const Plan& plan, const Site& site) {
  if (plan.blocks > 0) launch_streaming(p, plan, site);  // an empty tensor has no tensor map
}

}  // namespace torch_conv::fused3d
