// CHANNELS_MMA_GENERAL: CHANNELS_MMA with all sizes at run time, for calls whose kernel is not compiled yet.
#pragma once

#include "kernels/depthwise/channels_mma/plan.h"
#include "kernels/depthwise/channels_mma_general/params.h"

namespace torch_conv::depthwise {

void launch_channels_mma_general(const Depthwise& p, const Plan& plan, const Site& site);

struct ChannelsMmaGeneralConfig {
  int64_t across, chunks, rows, tiles, blocks;
  ChannelsMmaSlots slots;
  int together;
};

inline ChannelsMmaGeneralConfig channels_mma_general_config(const Depthwise& p, const Arch& arch) {
  const ChannelsMmaPolicy t = channels_mma_config(p, arch).tile;
  ChannelsMmaGeneralConfig c{.across = ceil_div(p.out.w, kChannelsGeneralOutputs),
                             .chunks = ceil_div(p.out.c, kChannelsGeneralChannels),
                             .rows = ceil_div(p.out.h, kChannelsGeneralRows),
                             .slots = {.tiles = t.tiles, .images = t.images(), .pitch = t.pitch(), .rows = t.rows()},
                             .together = t.channels};
  c.tiles = p.out.n * c.across;
  c.blocks = ceil_div(c.tiles, 8) * c.rows * c.chunks;
  return c;
}

inline const char* channels_mma_general_refusal(const Depthwise& p, const Arch& arch) {
  if (const char* why = channels_mma_refusal(p, arch)) return why;
  const ChannelsMmaGeneralConfig c = channels_mma_general_config(p, arch);
  return below(int64_t(1) << 31, {c.tiles, c.blocks}) ? nullptr : "2^31 tiles";
}

inline void configure_channels_mma_general(const Depthwise& p, const Arch& arch, Plan& plan) {
  const ChannelsMmaGeneralConfig c = channels_mma_general_config(p, arch);
  plan.why = "pairs of channels are a sparse matrix of any size on tensor cores";
  plan.tile_w = kChannelsGeneralOutputs;
  plan.tile_h = kChannelsGeneralRows;
  plan.threads = 32 * kChannelsGeneralWarps;
  plan.shared_bytes = channels_general_bytes(int(p.kh));
  plan.blocks = c.blocks;
  plan.kernels = {kernel_of("kernels/depthwise/channels_mma_general/kernel.cuh",
                            "depthwise::depthwise_channels_mma_general", {p.in.dtype})};
  plan.config = c;
}

}  // namespace torch_conv::depthwise
