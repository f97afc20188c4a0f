// The rules by which another variant or algorithm is faster, each with the measurement that decided it.
#pragma once

#include "kernels/fused/streaming/plan.h"
#include "kernels/fused/tile/plan.h"

namespace torch_conv::fused {

// 4096^2 in strips as low as those of small images, one NVIDIA H200, us:
//
//                        STREAMING  TILE
//     9 taps, 16 rows           49    49
//     13 taps, 24 rows          65    74
inline const char* streaming_is_slower(const Fused& p, const Arch& arch) {
  const StreamingStrip shape = find_chain(p)->streaming;
  const bool slower = shape.height(streaming_boxes(p, shape, arch)) < 4 * shape.radius;
  return slower ? "tiles are faster on small images" : nullptr;
}

// Edges that are computed again take a block three times as long, which few blocks do not hide. Structure tensor 5, one
// NVIDIA H200, us, one launch and filters one by one: 1024^2 40, 33; 2048^2 49, 98. Single filters of shards also copy
// rows and outputs.
inline const char* tile_is_slower(const Fused& p, const Arch& arch) {
  const Chain chain = *find_chain(p);
  const bool mends = chain.count > 1 && !chain.extends_rows;
  const bool slower = mends && !p.wanted && !p.peers.any() && count_tiles(p, chain.shape) < 4 * arch.multiprocessors;
  return slower ? "filters one by one are faster on small images" : nullptr;
}

}  // namespace torch_conv::fused
