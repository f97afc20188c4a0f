#include "runtime/launch.h"

#include "kernels/fused/combine/plan.h"

namespace torch_conv::fused {

void launch_combine(const Combine& p, const Plan& plan, const Site& site) {
  launch(plan, site, in_rows(p), count_pixels(p.out) / own_config<CombineConfig>(plan).vector);
}

}  // namespace torch_conv::fused
