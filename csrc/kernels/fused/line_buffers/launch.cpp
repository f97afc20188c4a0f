#include "runtime/launch.h"

#include "kernels/fused/line_buffers/plan.h"

namespace torch_conv::fused {

void launch_line_buffers(const Fused& p, const Plan& plan, const Site& site) {
  launch(plan, site, line_buffers_params(p, own_config<LineChain>(plan)));
}

}  // namespace torch_conv::fused
