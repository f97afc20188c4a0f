#include "runtime/launch.h"

#include "kernels/depthwise/channels/plan.h"

namespace torch_conv::depthwise {

void launch_channels(const Depthwise& p, const Plan& plan, const Site& site) {
  const auto& config = own_config<ChannelsConfig>(plan);
  launch(plan, site,
         ChannelsArgs{.in = p.in.data,
                      .weight = p.weight,
                      .bias = p.bias,
                      .out = p.out.data,
                      .in_n = p.in.stride_n,
                      .in_h = p.in.stride_h,
                      .in_w = p.in.stride_w,
                      .out_n = p.out.stride_n,
                      .out_h = p.out.stride_h,
                      .out_w = p.out.stride_w,
                      .c_out = int(p.out.c),
                      .multiplier = FastDivisor::of(unsigned(p.multiplier())),
                      .lanes = FastDivisor::of(unsigned(config.lanes)),
                      .chunks = FastDivisor::of(unsigned(config.chunks)),
                      .y = config.y,
                      .x = config.x});
}

}  // namespace torch_conv::depthwise
