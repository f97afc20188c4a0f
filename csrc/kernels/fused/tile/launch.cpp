#include "runtime/launch.h"

#include "kernels/fused/tile/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::fused {

void launch_tile(const Fused& p, const Plan& plan, const Site& site) {
  const auto& config = own_config<ChainConfig>(plan);
  const TileShape& shape = config.chain.shape;
  const int pack = tma::pack_of(size_of(p.in.dtype));
  const TensorMap own = config.bulk ? tma::plane_map(p.in, shape.pitch() / pack, shape.box_h(), pack) : TensorMap{};
  PackedTaps taps{};
  config.chain.pack(p, taps);
  const Args args = args_of(p, plan, config);
  // Boxes come by the shard's own map.
  const auto any = [&](const Image&) { return own; };
  if (p.peers.any()) launch(plan, site, ShardMaps::of_rows(p.in, p.peers.nearest(shape.halo), any), args, taps);
  else launch(plan, site, own, args, taps);
}

}  // namespace torch_conv::fused
