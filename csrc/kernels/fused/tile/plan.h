// Fused + Arch -> Plan: which chains `tile` and `tile_tma` serve, and with which tile. Pure.
#pragma once

#include "kernels/fused/config.h"

namespace torch_conv::fused {

void launch_tile(const Fused& p, const Plan& plan, const Site& site);

inline const char* tile_refusal(const Fused& p, const Arch&) { return pipeline_refusal(p); }
inline const char* tile_tma_refusal(const Fused& p, const Arch& arch) { return bulk_pipeline_refusal(p, arch); }

inline int64_t count_tiles(const Fused& p, const TileShape& shape) {
  return p.in.n * p.in.c * ceil_div(p.in.w, shape.width()) * ceil_div(p.in.h, shape.height());
}

inline void configure_tile(const Fused& p, bool bulk, Plan& plan) {
  const Chain chain = *find_chain(p);
  const TileShape& shape = chain.shape;
  const bool aligned = !p.valid && whole_words(p, shape.columns / chain.stride);
  plan.why = p.peers.any() ? "one box of the image, stages in registers, through all shards"
                           : "one box of the image, stages in registers";
  plan.tile_w = shape.width(), plan.tile_h = shape.height();
  plan.threads = 32 * TileShape::warps;
  plan.shared_bytes = chain.shared_bytes;
  plan.blocks = count_tiles(p, shape);
  const Kernel kernel =
      kernel_of("kernels/fused/tile/kernel.cuh", "fused::fused_tile", {chain.text(), p.in.dtype, p.out.dtype, aligned});
  plan.kernels = {with_peers(kernel, p.peers.any())};
  plan.config = ChainConfig{.chain = chain, .bulk = bulk};
}
inline void configure_tile_tma(const Fused& p, const Arch&, Plan& plan) { configure_tile(p, true, plan); }
inline void configure_tile_plain(const Fused& p, const Arch&, Plan& plan) { configure_tile(p, false, plan); }

}  // namespace torch_conv::fused
