#include "runtime/launch.h"

#include "kernels/direct2d/channels/plan.h"

namespace torch_conv::direct2d {

void launch_channels(const Direct& p, const Plan& plan, const Site& site) {
  const auto& s = own_config<ChannelShape>(plan);
  const ChannelArgs args{.in = p.in.data,
                         .out = p.out.data,
                         .in_n = p.in.stride_n,
                         .in_y = p.in.stride_h,
                         .out_n = p.out.stride_n,
                         .out_y = p.out.stride_h,
                         .in_x = int(p.in.stride_w),
                         .out_x = int(p.out.stride_w),
                         .in_h = int(p.in.h),
                         .in_w = int(p.in.w),
                         .out_h = int(p.out.h),
                         .rows = s.rows,
                         .vectors = unsigned(p.out.w * s.vectors),
                         .blocks = FastDivisor::of(unsigned(ceil_div(p.out.w * s.vectors, plan.threads))),
                         .strips = FastDivisor::of(unsigned(ceil_div(p.out.h, s.rows))),
                         .group = FastDivisor::of(unsigned(s.group)),
                         .columns = FastDivisor::of(unsigned(p.out.w)),
                         .pad_y = int(p.place.pad_y),
                         .pad_x = int(p.place.pad_x),
                         .border = p.place.border,
                         .value = float(p.place.value),
                         .taps_n = p.taps.stride_n,
                         .taps_c = p.taps.stride_c};
  launch(plan, site, args, ParamTaps::of(p));
}

}  // namespace torch_conv::direct2d
