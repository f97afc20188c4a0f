// CHANNELS_MMA: the problems that it serves, the tile, and the number of steps of a block.
#pragma once

#include "kernels/depthwise/channels_mma/params.h"
#include "kernels/depthwise/config.h"

namespace torch_conv::depthwise {

void launch_channels_mma(const Depthwise& p, const Plan& plan, const Site& site);

struct ChannelsMmaConfig {
  ChannelsMmaPolicy tile;
  int chunks, segments, blocks_y, each, total;
  int64_t blocks;
};

constexpr int64_t kChannelsMmaMostK = 9;  // the footprint of seven outputs is then 15 of the 16 slots

// A tile, and an even number of steps for each block. `resident` is 0 if the tile does not fit.
inline ChannelsMmaConfig channels_mma_config(const Depthwise& p, const Arch& arch, int channels, int stages, int most) {
  const int64_t tiles = ceil_div(p.out.w, ChannelsMmaPolicy::kOutputs);
  // Segments of wide images have 8 tiles, or 4 of two images where these take fewer mma.
  const bool halves = tiles > 8 && ceil_div(tiles, 4) * ceil_div(p.in.n, 2) < ceil_div(tiles, 8) * p.in.n;
  const int64_t adjacent = halves ? 4 : std::min<int64_t>(tiles, 8), segments = ceil_div(tiles, adjacent);
  ChannelsMmaConfig c{
      .tile = {.kh = int(p.kh), .kw = int(p.kw), .tiles = int(adjacent), .channels = channels, .stages = stages}};
  const int64_t lag = p.kh - 1 - p.place.pad_y;
  // The system takes 1 KiB of a block, the barriers 1 KiB.
  c.tile.resident = std::min(most, (arch.shared_bytes + 1024) / (c.tile.shared_bytes() + 2048));
  c.chunks = int(ceil_div(p.in.c, channels));
  c.segments = int(segments);
  c.blocks_y = int(ceil_div(std::min(p.in.h, p.out.h + lag), c.tile.rows()));
  const int64_t total = ceil_div(p.in.n, c.tile.images()) * segments * c.blocks_y;
  c.total = int(std::min<int64_t>(total, INT32_MAX));
  const int64_t slots = std::max<int64_t>(1, int64_t(arch.multiprocessors) * c.tile.resident);
  double best = 0;
  const auto consider = [&](int64_t each) {
    const int64_t blocks = ceil_div(total, each) * c.chunks;
    const double cost = double(ceil_div(blocks, slots)) * double(each + 1 + (each % c.blocks_y && p.kh > 1 ? 1 : 0));
    if (best == 0 || cost < best) best = cost, c.each = int(each), c.blocks = blocks;
  };
  for (int64_t waves = 1; waves <= 4; ++waves) {
    const int64_t ranges = std::clamp<int64_t>(slots * waves / c.chunks, 1, total), each = ceil_div(total, ranges);
    consider(each);
    consider(std::min(round_up(each, c.blocks_y), total));
  }
  return c;
}

// Measured on one NVIDIA H200, float16, share of copy. 32 channels and one block a multiprocessor, by stages:
//
//                        3     4     5
//     64x96x56x56   3x3  0.81  0.79  0.78
//                   5x5  0.80  0.80  0.76
//                   7x7  0.74  0.76  0.74
//     64x384x28x28  7x7  0.75  0.77
//     64x768x14x14  7x7  0.63  0.65
//
// 16 channels, two stages and three blocks are faster where blocks would have few steps: 64x768x14x14 7x7 0.70, with
// two blocks 0.60.
inline ChannelsMmaConfig channels_mma_config(const Depthwise& p, const Arch& arch) {
  ChannelsMmaConfig wide = channels_mma_config(p, arch, 32, p.kh > 5 ? 4 : 3, 1);
  if (wide.tile.resident < 1) wide = channels_mma_config(p, arch, 32, 3, 1);
  if (p.in.c > 16 && wide.tile.resident >= 1 && wide.each >= 8) return wide;
  return channels_mma_config(p, arch, 16, 2, p.kh > 7 ? 2 : 3);
}

inline const char* channels_mma_refusal(const Depthwise& p, const Arch& arch) {
  const Placement& s = p.place;
  if (p.sums == Sums::chain) return "sums on tensor cores are no chain";
  if (!is_half(p.in.dtype) || p.weights != p.in.dtype) return "no float16 or bfloat16";
  if (p.in.c != p.out.c) return "several outputs of a channel";
  if (!s.unit_steps_of_images()) return "stride or dilation";
  if (p.kh > kChannelsMmaMostK || p.kw > kChannelsMmaMostK) return "windows above 9x9";
  if (!near(p.in.h, p.out.h, p.kh, s.pad_y) || !near(p.in.w, p.out.w, p.kw, s.pad_x))
    return "padding as large as the window";
  if (!arch.bulk_copy) return "no bulk copies";
  if (arch.major != 9) return "another GPU than Hopper";  // compiles for lagr ones, and has run on none
  if (p.in.c < 2) return "one channel";
  if (!tma::channels_possible(p.in) || !tma::channels_possible(p.out))
    return "channels do not lie innermost, or pixels not on 16 bytes";
  if (!below(kMostSide, {p.in.h, p.in.w, p.in.n, p.in.c, p.out.h, p.out.w})) return "2^30 rows or columns";
  if (channels_mma_config(p, arch).tile.resident < 1) return "too little shared memory";
  return nullptr;
}

inline void configure_channels_mma(const Depthwise& p, const Arch& arch, Plan& plan) {
  const ChannelsMmaConfig c = channels_mma_config(p, arch);
  const ChannelsMmaPolicy& t = c.tile;
  plan.why = "pairs of channels are a sparse matrix on tensor cores";
  plan.tile_w = t.width();
  plan.tile_h = t.rows();
  plan.threads = t.threads();
  plan.shared_bytes = t.shared_bytes();
  plan.blocks = c.blocks;
  const TemplateArgument tile("depthwise::ChannelsMmaPolicy", {t.kh, t.kw, t.tiles, t.channels, t.stages, t.resident});
  plan.kernels = {kernel_of("kernels/depthwise/channels_mma/kernel.cuh", "depthwise::depthwise_channels_mma",
                            {p.in.dtype, tile, argument_of(p.activation)})};
  plan.config = c;
}

}  // namespace torch_conv::depthwise
