#include "runtime/launch.h"

#include "kernels/direct2d/window/plan.h"

namespace torch_conv::direct2d {

void launch_window(const Direct& p, const Plan& plan, const Site& site) {
  const auto& shape = own_config<WindowShape>(plan);
  const WindowArgs args{.p = p,
                        .peers = PeerRows::of(p.peers, p.in),
                        .pitch = int(shape.pitch),
                        .rows = int(shape.rows),
                        .tap_pitch = int(shape.tap_pitch),
                        .tiles_x = int(ceil_div(p.out.w, plan.tile_w)),
                        .tiles_y = int(ceil_div(p.out.h, plan.tile_h)),
                        .in_per_group = int(p.in.c / p.groups),
                        .out_per_group = int(p.out.c / p.groups)};
  launch(plan, site, args, ParamTaps::of(p));
}

}  // namespace torch_conv::direct2d
