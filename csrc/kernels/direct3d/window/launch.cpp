#include "runtime/launch.h"

#include "kernels/direct3d/window/plan.h"

namespace torch_conv::direct3d {

void launch_window(const Direct& p, const Plan& plan, const Site& site) {
  const auto& shape = own_config<VolumeWindowShape>(plan);
  const WindowArgs args{.p = p,
                        .part = int(shape.part),
                        .pitch = int(shape.pitch),
                        .rows = int(shape.rows),
                        .tap_pitch = int(shape.tap_pitch),
                        .tiles_x = int(ceil_div(p.out.w, shape.width)),
                        .tiles_y = int(ceil_div(p.out.h, shape.height)),
                        .width_log2 = shape.width == 128  ? 7
                                      : shape.width == 64 ? 6
                                                          : 5,
                        .in_per_group = int(p.in.c / p.groups),
                        .out_per_group = int(p.out.c / p.groups)};
  launch(plan, site, args, ParamTaps::of(p));
}

}  // namespace torch_conv::direct3d
