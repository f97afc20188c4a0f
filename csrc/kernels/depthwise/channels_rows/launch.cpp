#include "runtime/launch.h"

#include "kernels/depthwise/channels_rows/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::depthwise {

void launch_channels_rows(const Depthwise& p, const Plan& plan, const Site& site) {
  const auto& config = own_config<ChannelsRowsConfig>(plan);
  launch(plan, site,
         ChannelsRowsArgs{.weight = p.weight,
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
                          .kh = int(p.kh),
                          .chunks = FastDivisor::of(unsigned(config.chunks)),
                          .blocks_x = FastDivisor::of(unsigned(config.blocks_x)),
                          .blocks_y = FastDivisor::of(unsigned(config.blocks_y))},
         tma::plane_map(channels_as_rows(p.in), config.rows.lanes, config.rows.columns()));
}

}  // namespace torch_conv::depthwise
