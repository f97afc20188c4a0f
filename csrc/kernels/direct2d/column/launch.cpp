#include "runtime/launch.h"

#include "kernels/direct2d/column/plan.h"

namespace torch_conv::direct2d {

void launch_column(const Direct& p, const Plan& plan, const Site& site) {
  const Direct c = flattened(p);
  const ColumnArgs args{.in = c.in.data,
                        .out = c.out,
                        .in_n = c.in.stride_n,
                        .in_c = c.in.stride_c,
                        .row_bytes = unsigned(c.in.stride_h * size_of(c.in.dtype)),
                        .h = int(c.in.h),
                        .kh = int(c.kh),
                        .pad = int(c.place.pad_y),
                        .tiles_x = unsigned(ceil_div(c.out.w, plan.tile_w)),
                        .tiles_y = unsigned(ceil_div(c.out.h, plan.tile_h)),
                        .channels_out = unsigned(c.out.c),
                        .multiplier = unsigned(c.out.c / c.groups),
                        .border = c.place.border,
                        .value = c.place.value,
                        .taps_n = c.taps.stride_n,
                        .taps_c = c.taps.stride_c,
                        .bias = c.bias};
  launch(plan, site, args, ParamTaps::of(p));
}

}  // namespace torch_conv::direct2d
