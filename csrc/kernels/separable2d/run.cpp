// The kernel family's entry points on CUDA.
#include "kernels/separable2d/plan.h"

namespace torch_conv::separable2d {

Plan plan_cuda(const Separable& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const Separable& p, const Plan& plan, const Site& site) {
  if (plan.blocks == 0) return;  // no output: there is no tensor map of nothing, and rows need no first pass
  launch_config(p, plan).launch(p, plan, site);
}

}  // namespace torch_conv::separable2d
