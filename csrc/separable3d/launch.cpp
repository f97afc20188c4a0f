// Plan -> parameters and launch.
#include "cuda/launch.h"

#include "cuda/tensor_map.h"
#include "separable3d/plan.h"

namespace torch_conv::separable3d {

namespace {

void launch_march(const Separable& p, const Plan& plan, const Config& config, const Site& site) {
  MarchParams params{.volumes = VolumeGeometry::of(p.in, p.out),
                     .pad_z = int(p.place.pad_z),
                     .pad_y = int(p.place.pad_y),
                     .pad_x = int(p.place.pad_x),
                     .lead = config.lead,
                     .chunk = plan.tile_d,
                     .grid = MarchGrid::of(p.out, config.lead, plan.tile_w, plan.tile_h, plan.tile_d),
                     .value = float(p.place.value),
                     .border = p.place.border,
                     .patch = patches_border(p.place.border, p.place.value),
                     .windows = {},
                     .taps = {}};
  take_taps({&p.taps_x, &p.taps_y, &p.taps_z}, p.out.n, p.out.c, p.kw, params.windows, params.taps);
  const int pack = tma::pack_of(size_of(p.in.dtype));
  const TensorMap map = tma::volume_map(p.in, config.shape.pitch() / pack, config.shape.box_h(), pack);
  launch(plan, site, params, map);
}

}  // namespace

Plan plan_cuda(const Separable& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const Separable& p, const Plan& plan, const Site& site) {
  if (plan.blocks == 0) return;  // there is no tensor map of nothing
  launch_march(p, plan, *std::any_cast<Config>(&plan.config), site);
}

}  // namespace torch_conv::separable3d
