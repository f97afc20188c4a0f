#include "runtime/launch.h"

#include "kernels/depthwise/channels_tma/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::depthwise {

void launch_channels_tma(const Depthwise& p, const Plan& plan, const Site& site) {
  const auto& config = own_config<ChannelsTmaConfig>(plan);
  const ChannelsBox& box = config.box;
  launch(plan, site,
         ChannelsTmaArgs{.weight = p.weight,
                         .bias = p.bias,
                         .out = p.out.data,
                         .out_n = p.out.stride_n,
                         .out_h = p.out.stride_h,
                         .out_w = p.out.stride_w,
                         .c = int(p.out.c),
                         .h_out = int(p.out.h),
                         .w_out = int(p.out.w),
                         .pad_y = int(p.place.pad_y),
                         .pad_x = int(p.place.pad_x),
                         .tiles = int(config.tiles),
                         .steps = int(config.steps),
                         .bulk_taps = channels_tma_bulk_taps(p, config.box),
                         .chunks = FastDivisor::of(unsigned(config.chunks)),
                         .blocks_x = FastDivisor::of(unsigned(config.blocks_x)),
                         .tiles_y = FastDivisor::of(unsigned(config.tiles_y))},
         tma::plane_map(channels_as_rows(p.in), box.channels(), box.columns()));
}

}  // namespace torch_conv::depthwise
