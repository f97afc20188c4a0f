#include "runtime/launch.h"

#include "kernels/depthwise/channels_mma_general/plan.h"

namespace torch_conv::depthwise {

void launch_channels_mma_general(const Depthwise& p, const Plan& plan, const Site& site) {
  const auto& c = own_config<ChannelsMmaGeneralConfig>(plan);
  launch(plan, site,
         ChannelsMmaGeneralArgs{.p = p,
                                .slots = c.slots,
                                .tiles = unsigned(c.tiles),
                                .together = c.together,
                                .across = FastDivisor::of(unsigned(c.across)),
                                .chunks = FastDivisor::of(unsigned(c.chunks)),
                                .rows = FastDivisor::of(unsigned(c.rows))});
}

}  // namespace torch_conv::depthwise
