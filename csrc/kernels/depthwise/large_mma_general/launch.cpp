#include "runtime/launch.h"

#include "kernels/depthwise/large_mma_general/plan.h"

namespace torch_conv::depthwise {

void launch_large_mma_general(const Depthwise& p, const Plan& plan, const Site& site) {
  const auto& c = own_config<LargeMmaGeneralConfig>(plan);
  launch(plan, site,
         LargeMmaGeneralArgs{.p = p,
                             .order = c.order,
                             .rows = unsigned(c.rows),
                             .tiles = unsigned(c.tiles),
                             .blocks = unsigned(c.blocks),
                             .across = FastDivisor::of(unsigned(c.across)),
                             .plane = FastDivisor::of(unsigned(p.out.h))});
}

}  // namespace torch_conv::depthwise
