// Fused + Arch -> Plan: which chains `streaming` serves, and with which strips. Pure.
#pragma once

#include "kernels/fused/config.h"

namespace torch_conv::fused {

void launch_streaming(const Fused& p, const Plan& plan, const Site& site);

inline const char* streaming_refusal(const Fused& p, const Arch& arch) {
  if (const char* no = bulk_pipeline_refusal(p, arch)) return no;
  const Chain chain = *find_chain(p);
  if (!chain.fits_streaming) return "no sum of windows of 9 taps and more";
  if (!p.peers.all(tma::vectors_possible)) return "other shards' rows not 16-byte aligned";
  return edges_of(p, chain).margin > 0 ? "a border that is not made of pixels" : nullptr;
}

inline int64_t streaming_blocks(const Fused& p, const StreamingStrip& shape, int boxes) {
  return p.in.n * p.in.c * ceil_div(p.in.w, shape.width()) * ceil_div(p.in.h, shape.height(boxes));
}

// Long strips sum few rows twice, but the grid's last ones run alone: the least of rounds of resident blocks and a part
// of a round more, times boxes. That part decides 9 taps at 8192^2 on one NVIDIA H200: one to four rounds take 184,
// 164, 159 and 157 us; at 4096^2 50, 45, 46 and 49. With 13 taps 176, 169, 174 and 178; 50, 57, 60 and 65.
inline int streaming_boxes(const Fused& p, const StreamingStrip& shape, const Arch& arch) {
  const int64_t fitting = arch.shared_bytes / (shape.shared_bytes(size_of(p.in.dtype)) + 1024);
  const int64_t resident = arch.multiprocessors * std::max<int64_t>(1, std::min<int64_t>(shape.blocks, fitting));
  const int fewest = 2 * shape.radius / shape.rows + 1, most = int(ceil_div(p.in.h + 2 * shape.radius, shape.rows));
  const double tail = shape.radius > 4 ? 0.15 : 0.7;
  int best = fewest;
  double least = 1e300;
  for (int boxes = fewest; boxes <= std::min(most, fewest + 256); ++boxes) {
    const double cost = (double(ceil_div(streaming_blocks(p, shape, boxes), resident)) + tail) * boxes;
    if (cost <= least) least = cost, best = boxes;
  }
  return best;
}

inline void configure_streaming(const Fused& p, const Arch& arch, Plan& plan) {
  const Chain chain = *find_chain(p);
  const StreamingStrip& shape = chain.streaming;
  const int boxes = streaming_boxes(p, shape, arch);
  const bool aligned = !p.valid && whole_words(p, shape.columns);
  plan.why = p.peers.any() ? "a warp a strip, every row summed once, through all shards"
                           : "a warp a strip, every row summed once";
  plan.tile_w = shape.width(), plan.tile_h = shape.height(boxes);
  plan.threads = 32;
  plan.shared_bytes = shape.shared_bytes(size_of(p.in.dtype));
  plan.blocks = streaming_blocks(p, shape, boxes);
  const Kernel kernel = kernel_of("kernels/fused/streaming/kernel.cuh", "fused::fused_streaming",
                                  {chain.text(), p.in.dtype, p.out.dtype, aligned});
  plan.kernels = {with_peers(kernel, p.peers.any())};
  plan.config = ChainConfig{.chain = chain, .bulk = true, .boxes = boxes};
}

}  // namespace torch_conv::fused
