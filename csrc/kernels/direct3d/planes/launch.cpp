#include "runtime/launch.h"

#include "kernels/direct3d/planes/plan.h"

namespace torch_conv::direct3d {

void launch_planes(const Direct& p, const Plan& plan, const Site& site) {
  const auto& s = own_config<PlanesShape>(plan);
  const PlanesArgs args{.in = p.in.data,
                        .out = p.out.data,
                        .volume_in = p.in.d * p.in.h * p.in.w,
                        .volume_out = p.out.d * p.out.h * p.out.w,
                        .d = int(p.in.d),
                        .h = int(p.in.h),
                        .w = int(p.in.w),
                        .d_out = int(p.out.d),
                        .volumes = int(p.out.n * p.out.c),
                        .channels_out = int(p.out.c),
                        .multiplier = int(p.out.c / p.groups),
                        .pad_z = int(p.place.pad_z),
                        .group = s.channels,
                        .units_x = s.units_x,
                        .units = s.units,
                        .lanes = s.lanes,
                        .stages = s.stages,
                        .stage_bytes = s.stage_bytes,
                        .slot_bytes = s.slot_bytes,
                        .plane_bytes = int(p.in.h * p.in.w * size_of(p.in.dtype)),
                        .chunk = plan.tile_d,
                        .total = int(ceil_div(p.out.n * p.out.c, s.channels) * p.out.d),
                        .border = p.place.border,
                        .value = float(p.place.value),
                        .taps_n = p.taps.stride_n,
                        .taps_c = p.taps.stride_c,
                        .bias = static_cast<const float*>(p.bias)};
  launch(plan, site, args, ParamTaps::of(p));
}

}  // namespace torch_conv::direct3d
