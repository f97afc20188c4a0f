#include "runtime/launch.h"

#include "kernels/fused3d/streaming/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::fused3d {

namespace {

static_assert(sizeof(StreamingParams) + sizeof(TensorMap) <= 4096, "kernel parameters beyond 4 KiB");

StreamingParams streaming_params(const Fused& p, const Plan& plan, const StreamingConfig& config) {
  StreamingParams a{.volumes = VolumeGeometry::of(p.in, p.out),
                    .chunk = plan.tile_d,
                    .grid = StreamingGrid::of(p.out, 0, plan.tile_w, plan.tile_h, plan.tile_d),
                    .value = float(p.value),
                    .number = float(p.stages[1].number),
                    .border = p.border,
                    .patch = patches_border(p.border, p.value),
                    .difference = config.difference,
                    .pairs = config.pairs,
                    .gradient = {},
                    .windows = {},
                    .taps = {}};
  for (int i = 0; i < 3; ++i) {
    const Taps* axes[] = {&p.stages[1].taps_x[i], &p.stages[1].taps_y[i], &p.stages[1].taps_z[i]};
    for (int axis = 0; axis < 3; ++axis)
      for (int j = 0; j < 3; ++j) a.gradient[i][axis][j] = tap(*axes[axis], j);
  }
  const Stage& blur = p.stages[0];
  take_taps({&blur.taps_x[0], &blur.taps_y[0], &blur.taps_z[0]}, p.out.n, p.out.c, blur.kw, a.windows, a.taps);
  return a;
}

}  // namespace

void launch_streaming(const Fused& p, const Plan& plan, const Site& site) {
  const StreamingConfig& config = own_config<StreamingConfig>(plan);
  const int pack = tma::pack_of(config.shape.element_bytes);
  const TensorMap map = tma::volume_map(p.in, config.shape.pitch() / pack, config.shape.box_h(), pack);
  launch(plan, site, streaming_params(p, plan, config), map);
}

}  // namespace torch_conv::fused3d
