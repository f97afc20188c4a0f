#include "runtime/launch.h"

#include "kernels/direct3d/channels/plan.h"

namespace torch_conv::direct3d {

void launch_channels(const Direct& p, const Plan& plan, const Site& site) {
  const int bytes = size_of(p.in.dtype);
  const VoxelChannelsArgs args{.in = p.in.data,
                               .out = p.out.data,
                               .in_n = p.in.stride_n,
                               .in_d = p.in.stride_d,
                               .out_n = p.out.stride_n,
                               .out_d = p.out.stride_d,
                               .in_h = unsigned(p.in.stride_h * bytes),
                               .in_w = unsigned(p.in.stride_w * bytes),
                               .out_h = unsigned(p.out.stride_h * bytes),
                               .out_w = unsigned(p.out.stride_w * bytes),
                               .d = int(p.in.d),
                               .h = int(p.in.h),
                               .w = int(p.in.w),
                               .d_out = int(p.out.d),
                               .h_out = int(p.out.h),
                               .w_out = int(p.out.w),
                               .c = int(p.in.c),
                               .tiles_x = int(ceil_div(p.out.w, plan.tile_w)),
                               .tiles_y = int(ceil_div(p.out.h, plan.tile_h)),
                               .tiles_c = int(ceil_div(p.out.c * bytes, 64)),
                               .chunks = int(ceil_div(p.out.d, plan.tile_d)),
                               .chunk = plan.tile_d,
                               .pad_z = int(p.place.pad_z),
                               .pad_y = int(p.place.pad_y),
                               .pad_x = int(p.place.pad_x),
                               .border = p.place.border,
                               .value = float(p.place.value),
                               .taps_n = p.taps.stride_n,
                               .taps_c = p.taps.stride_c,
                               .bias = static_cast<const float*>(p.bias)};
  launch(plan, site, args, ParamTaps::of(p));
}

}  // namespace torch_conv::direct3d
