#include "runtime/launch.h"

#include "kernels/separable2d/shared/pass_taps.h"
#include "kernels/separable2d/strip/plan.h"

namespace torch_conv::separable2d {

namespace {

bool rows_start_on(const Peers& peers, int64_t bytes) {
  const auto fits = [&](const Image& x) { return !x.data || rows_start_on(x, bytes); };
  return fits(peers.above) && fits(peers.below);
}

}  // namespace

void launch_strip(const Separable& p, const Plan& plan, const Site& site) {
  const StripParams params{
      .planes = PlaneGeometry::of(p.in, p.out),
      .pad_y = int(p.place.pad_y),
      .pad_x = int(p.place.pad_x),
      .kh = int(p.kh),
      .kw = int(p.kw),
      .channels = unsigned(p.out.c),
      .tiles_x = unsigned(ceil_div(p.out.w, plan.tile_w)),
      .tiles_y = unsigned(ceil_div(p.out.h, plan.tile_h)),
      .value = float(p.place.value),
      .border = p.place.border,
      .aligned_loads = rows_start_on(p.in, 16) && rows_start_on(p.peers, 16),
      .shape = own_config<StripShape>(plan),
      .taps = pass_taps(p, true, true),
      .peers = PeerRows::of(p.peers, p.in),
  };
  launch(plan, site, params);
}

}  // namespace torch_conv::separable2d
