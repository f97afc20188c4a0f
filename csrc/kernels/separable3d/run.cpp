// The kernel family's entry points on CUDA.
#include "kernels/separable3d/plan.h"

namespace torch_conv::separable3d {

Plan plan_cuda(const Separable& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const Separable& p, const Plan& plan, const Site& site) {
  if (plan.blocks > 0) launch_streaming(p, plan, site);  // an empty tensor has no tensor map
}

}  // namespace torch_conv::separable3d
