// The rules by which another variant or algorithm is faster, each with the measurement that decided it.
#pragma once

#include "kernels/fused/line_buffers/plan.h"
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

// Filters one by one read rows of 16-byte words by bulk copies. Their time over that of LINE_BUFFERS, one NVIDIA H200,
// 64 random calls of chains that have no pipeline:
//
//     rows of other lengths 1.2 to 1.9; float64 1.1 to 1.8; thinned edges 1.4 to 1.9, float32 0.65
//     rows of 16-byte words, narrow dtypes: small images 1.5 to 2.8; 2048^2 pixels and more 0.62 to 0.95
//     ... float32: 0.40 to 0.96
//     128, 256 interleaved channels 0.75, 0.45
constexpr int64_t kManyPixels = 2048 * 2048;
inline const char* line_buffers_is_slower(const Fused& p, const Arch&) {
  if (p.wanted) return nullptr;
  const int channels = channels_together(p.in, kLineWarps);
  if (channels > 4) return "filters one by one are faster on many interleaved channels";
  const bool bulk = p.in.stride_w == channels && aligned_rows(as_rows(p.in, channels));
  const bool thins = p.stages[p.count - 1].point == Point::thin;
  const bool many = p.in.n * p.in.c * p.in.h * p.in.w >= kManyPixels && !thins;
  const bool slower = bulk && p.in.dtype != Dtype::f64 && (p.in.dtype == Dtype::f32 || many);
  return slower ? "filters one by one read these rows by bulk copies" : nullptr;
}

}  // namespace torch_conv::fused
