#include "runtime/launch.h"

#include "kernels/direct2d/reg/plan.h"

namespace torch_conv::direct2d {

void launch_reg(const Direct& p, const Plan& plan, const Site& site) {
  launch(plan, site, plane_args(p, p, plan), ParamTaps::of(p));
}

}  // namespace torch_conv::direct2d
