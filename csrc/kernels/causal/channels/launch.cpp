#include "runtime/launch.h"

#include "kernels/causal/channels/plan.h"

namespace torch_conv::causal {

void launch_channels(const CausalConv& p, const Plan& plan, const Site& site) {
  launch(plan, site,
         ChannelsArgs{.p = p,
                      .x = Starts::of(p.x),
                      .out = Starts::of(p.out),
                      .across = Divisor::of(blocks_across(p)),
                      .along = Divisor::of(blocks_along(p))});
}

}  // namespace torch_conv::causal
