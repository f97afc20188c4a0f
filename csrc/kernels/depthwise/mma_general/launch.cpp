#include "runtime/launch.h"

#include "kernels/depthwise/mma_general/plan.h"

namespace torch_conv::depthwise {

void launch_mma_general(const Depthwise& p, const Plan& plan, const Site& site) {
  const auto& c = own_config<MmaGeneralConfig>(plan);
  launch(plan, site,
         MmaGeneralArgs{.p = p,
                        .order = c.order,
                        .tiles = unsigned(c.tiles),
                        .blocks = unsigned(c.blocks),
                        .across = FastDivisor::of(unsigned(c.across)),
                        .of_strip = FastDivisor::of(unsigned(c.of_strip)),
                        .strips = FastDivisor::of(unsigned(c.strips))});
}

}  // namespace torch_conv::depthwise
