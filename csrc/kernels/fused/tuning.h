// Where another variant or algorithm is faster, each rule with the measurement that decided it.
#pragma once

#include "kernels/fused/streaming/plan.h"
#include "kernels/fused/tile/plan.h"

namespace torch_conv::fused {

// 4096^2 in strips of 16 rows, as small images would have them, takes 49 us with 9 taps, in tiles 49; in strips of 24
// rows with 13 taps 65 us, in tiles 74.
inline const char* streaming_is_slower(const Fused& p, const Arch& arch) {
  const StreamingShape shape = find_chain(p)->streaming;
  const bool slower = shape.height(streaming_boxes(p, shape, arch)) < 4 * shape.radius;
  return slower ? "tiles are faster on small images" : nullptr;
}

// Edges that are computed again take a block three times as long, which few blocks do not hide (structure tensor 5 on
// one NVIDIA H200, one launch against filters one by one: 1024^2 40 and 33 us, 2048^2 49 and 98). Of shards those have
// copies of rows and of outputs as well.
inline const char* tile_is_slower(const Fused& p, const Arch& arch) {
  const Chain chain = *find_chain(p);
  const bool mends = chain.count > 1 && !chain.extends_rows;
  const bool slower = mends && !p.wanted && !p.peers.any() && count_tiles(p, chain.shape) < 4 * arch.multiprocessors;
  return slower ? "filters one by one are faster on small images" : nullptr;
}

}  // namespace torch_conv::fused
