#include "runtime/launch.h"

#include "kernels/depthwise/rows/plan.h"

namespace torch_conv::depthwise {

void launch_rows(const Depthwise& p, const Plan& plan, const Site& site) {
  const auto& config = own_config<RowsConfig>(plan);
  const int64_t lanes = config.flat             ? ceil_div(p.out.n * p.out.c * p.out.w, 16 / size_of(p.in.dtype))
                        : config.shared_outputs ? p.out.n * p.out.c * config.slots * 32
                                                : p.out.n * p.out.c * config.slots;
  launch(plan, site,
         RowsArgs{.in = p.in.data,
                  .weight = p.weight,
                  .bias = p.bias,
                  .out = p.out.data,
                  .in_stride_n = p.in.stride_n,
                  .in_stride_c = p.in.stride_c,
                  .out_stride_n = p.out.stride_n,
                  .out_stride_c = p.out.stride_c,
                  .first = 0,
                  .last = (p.in.n - 1) * p.in.stride_n + (p.in.c - 1) * p.in.stride_c + p.in.w,
                  .in_w = int(p.in.w),
                  .out_w = int(p.out.w),
                  .pad = int(p.place.pad_x),
                  .lanes = uint32_t(lanes),
                  .slots = FastDivisor::of(config.slots),
                  .channels = FastDivisor::of(p.out.c),
                  .multiplier = FastDivisor::of(p.multiplier())});
}

}  // namespace torch_conv::depthwise
