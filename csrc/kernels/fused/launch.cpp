// Plan -> parameters and launch.
#include "runtime/launch.h"

#include "kernels/fused/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::fused {

namespace {

void launch_tile(const Fused& p, const Plan& plan, const Config& config, const Site& site) {
  const int pack = tma::pack_of(size_of(p.in.dtype));
  const TensorMap own =
      config.bulk ? tma::plane_map(p.in, config.shape.pitch() / pack, config.shape.box_h(), pack) : TensorMap{};
  PackedTaps taps{};
  config.pack(p, taps);
  const Args args = args_of(p, plan, config);
  // Boxes come by the shard's own map.
  const auto any = [&](const Image&) { return own; };
  if (p.peers.any())
    launch(plan, site, ShardVolume::of_rows(p.in, p.peers.nearest(config.shape.halo), any), args, taps);
  else launch(plan, site, own, args, taps);
}

void launch_streaming(const Fused& p, const Plan& plan, const Config& config, const Site& site) {
  const int pack = tma::pack_of(size_of(p.in.dtype)), width = config.streaming.pitch(size_of(p.in.dtype)) / pack;
  const TensorMap map = tma::plane_map(p.in, width, config.streaming.rows, pack);
  const auto rows_of = [&](const Image& x) { return tma::plane_map(x, width, 1, pack); };
  PackedTaps taps{};
  config.pack(p, taps);
  const Args args = args_of(p, plan, config);
  if (p.peers.any())
    launch(plan, site, map, ShardVolume::of_rows(p.in, p.peers.nearest(config.streaming.radius), rows_of), args, taps);
  else launch(plan, site, map, rows_of(p.in), args, taps);
}

}  // namespace

Plan plan_cuda(const Fused& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const Fused& p, const Plan& plan, const Site& site) {
  const Config& config = *std::any_cast<Config>(&plan.config);
  if (config.boxes > 0) launch_streaming(p, plan, config, site);
  else launch_tile(p, plan, config, site);
}

}  // namespace torch_conv::fused
