#include "runtime/launch.h"

#include "kernels/depthwise/warps/plan.h"

namespace torch_conv::depthwise {

void launch_warps(const Depthwise& p, const Plan& plan, const Site& site) {
  const auto& c = own_config<WarpsConfig>(plan);
  launch(plan, site,
         WarpsArgs{.in = p.in.data,
                   .weight = p.weight,
                   .bias = p.bias,
                   .out = p.out.data,
                   .in_n = p.in.stride_n,
                   .in_c = p.in.stride_c,
                   .in_h = p.in.stride_h,
                   .out_n = p.out.stride_n,
                   .out_c = p.out.stride_c,
                   .out_h = p.out.stride_h,
                   .in_rows = int(p.in.h),
                   .out_rows = int(p.out.h),
                   .vectors = c.vectors,
                   .pad_y = int(p.place.pad_y),
                   .each = c.each,
                   .strips = unsigned(p.out.n * p.out.c * c.strips_x * c.strips_y),
                   .strips_x = FastDivisor::of(unsigned(c.strips_x)),
                   .strips_y = FastDivisor::of(unsigned(c.strips_y)),
                   .channels = FastDivisor::of(unsigned(p.out.c)),
                   .multiplier = FastDivisor::of(unsigned(p.multiplier()))});
}

}  // namespace torch_conv::depthwise
