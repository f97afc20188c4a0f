#include "runtime/launch.h"

#include "kernels/box/depth/plan.h"

namespace torch_conv::box {

void launch_depth(const BoxDepth& p, const Plan& plan, const Site& site) {
  launch(plan, site, depth_args(p, plan, own_config<DepthConfig>(plan)));
}

}  // namespace torch_conv::box
