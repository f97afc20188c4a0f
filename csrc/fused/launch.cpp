// Plan -> parameters and launch.
#include "cuda/launch.h"

#include "cuda/tensor_map.h"
#include "fused/plan.h"

namespace torch_conv::fused {

namespace {

Args args_of(const Fused& p, const Plan& plan, const Config& config) {
  double number = 0;
  for (int s = 0; s < p.count; ++s) number += p.stages[s].number;  // at most one has one (tile_refusal)
  return {.planes = PlaneGeometry::of(p.in, p.out),
          .stride_output = p.stride_output,
          .first = config.first,
          .order = TileOrder::of(ceil_div(p.in.w, plan.tile_w), ceil_div(p.in.h, plan.tile_h), p.in.c),
          .extend = config.edges.extend,
          .margin = config.edges.margin,
          .border = p.border,
          .value = float(p.value),
          .number = float(number),
          .bulk = config.bulk};
}

void launch_tile(const Fused& p, const Plan& plan, const Config& config, const Site& site) {
  const int pack = tma::pack_of(size_of(p.in.dtype));
  TensorMap map{};
  if (config.bulk) map = tma::plane_map(p.in, config.shape.pitch() / pack, config.shape.box_h(), pack);
  PackedTaps taps{};
  config.pack(p, taps);
  launch(plan, site, map, args_of(p, plan, config), taps);
}

}  // namespace

Plan plan_cuda(const Fused& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const Fused& p, const Plan& plan, const Site& site) {
  launch_tile(p, plan, *std::any_cast<Config>(&plan.config), site);
}

}  // namespace torch_conv::fused
