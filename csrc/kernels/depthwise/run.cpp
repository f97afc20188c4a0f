// The kernel family's entry points on CUDA.
#include "kernels/depthwise/plan.h"

namespace torch_conv::depthwise {

const char* const kChannelsMmaVariant = kChannelsMma.variant;

Plan plan_cuda(const Depthwise& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const Depthwise& p, const Plan& plan, const Site& site) { launch_config(p, plan).launch(p, plan, site); }

}  // namespace torch_conv::depthwise
