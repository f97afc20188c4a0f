#include "runtime/launch.h"

#include "kernels/fused/streaming/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::fused {

void launch_streaming(const Fused& p, const Plan& plan, const Site& site) {
  const auto& config = own_config<ChainConfig>(plan);
  const StreamingStrip& shape = config.chain.streaming;
  const int pack = tma::pack_of(size_of(p.in.dtype)), width = shape.pitch(size_of(p.in.dtype)) / pack;
  const TensorMap map = tma::plane_map(p.in, width, shape.rows, pack);
  const auto rows_of = [&](const Image& x) { return tma::plane_map(x, width, 1, pack); };
  PackedTaps taps{};
  config.chain.pack(p, taps);
  const Args args = args_of(p, plan, config);
  if (p.peers.any())
    launch(plan, site, map, ShardMaps::of_rows(p.in, p.peers.nearest(shape.radius), rows_of), args, taps);
  else launch(plan, site, map, rows_of(p.in), args, taps);
}

}  // namespace torch_conv::fused
