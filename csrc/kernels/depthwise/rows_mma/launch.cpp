#include "runtime/launch.h"

#include "kernels/depthwise/rows_mma/plan.h"

namespace torch_conv::depthwise {

void launch_rows_mma(const Depthwise& p, const Plan& plan, const Site& site) {
  const auto& config = own_config<RowsMmaConfig>(plan);
  // Neighbouring warps take neighbouring memory: rows of the next channel, or more of a long row.
  const bool channels_first = config.segments <= 8 * config.sets;
  launch(plan, site,
         RowsMmaArgs{.in = p.in.data,
                     .weight = p.weight,
                     .bias = p.bias,
                     .out = p.out.data,
                     .in_stride_n = p.in.stride_n,
                     .in_stride_c = p.in.stride_c,
                     .out_stride_n = p.out.stride_n,
                     .out_stride_c = p.out.stride_c,
                     .in_w = int(p.in.w),
                     .out_w = int(p.out.w),
                     .pad = int(p.place.pad_x),
                     .k = int(p.kw),
                     .warps = uint32_t(p.out.c * config.units),
                     .columns = uint32_t(config.columns),
                     .segments = FastDivisor::of(config.segments),
                     .multiplier = FastDivisor::of(p.multiplier()),
                     .fastest = FastDivisor::of(channels_first ? p.out.c : config.units),
                     .channels_first = channels_first});
}

}  // namespace torch_conv::depthwise
