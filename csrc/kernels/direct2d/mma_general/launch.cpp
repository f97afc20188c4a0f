#include "runtime/launch.h"

#include "kernels/direct2d/mma_general/plan.h"

namespace torch_conv::direct2d {

void launch_mma_general(const Direct& p, const Plan& plan, const Site& site) {
  launch(plan, site, mma_general_args(p, plan), ParamTaps::of(p));
}

}  // namespace torch_conv::direct2d
