#include "runtime/launch.h"

#include "kernels/box/strips/plan.h"

namespace torch_conv::box {

void launch_strips(const Box& p, const Plan& plan, const Site& site) {
  launch(plan, site, strip_args(p, plan, own_config<StripShape>(plan)));
}

}  // namespace torch_conv::box
