// LARGE_MMA_GENERAL: LARGE_MMA with all sizes at run time, for calls whose kernel is not compiled yet.
#pragma once

#include "kernels/depthwise/large_mma/plan.h"
#include "kernels/depthwise/large_mma_general/params.h"

namespace torch_conv::depthwise {

void launch_large_mma_general(const Depthwise& p, const Plan& plan, const Site& site);

struct LargeMmaGeneralConfig {
  LargeMmaOrder order;
  int64_t rows, across, tiles, blocks;  // rows, tiles and blocks of a channel; tiles of a row of tiles
};

static_assert(kLargeMmaMostWindow <= kLargeGeneralWindow &&
              ceil_div(kLargeMmaMostWindow + 14, 8) <= kLargeGeneralSpans);

inline LargeMmaGeneralConfig large_mma_general_config(const Depthwise& p, const Arch& arch) {
  const LargeMmaShape s = large_mma_config(p, arch).shape;
  LargeMmaGeneralConfig c{.order = {.spans = s.tile.spans,
                                    .ahead = int(ceil_div(p.place.pad_x, 8)),
                                    .shift = s.shift,
                                    .pair_stride = s.tile.pair_stride,
                                    .units = int(ceil_div(p.in.w, s.tile.unit())),
                                    .channels = s.channels},
                          .rows = p.out.n * p.out.h,
                          .across = ceil_div(p.out.w, 8 * kLargeGeneralBlocks)};
  c.tiles = ceil_div(c.rows, 16) * c.across;
  c.blocks = ceil_div(c.tiles, kLargeGeneralTiles * kLargeGeneralWarps);
  return c;
}

inline const char* large_mma_general_refusal(const Depthwise& p, const Arch& arch) {
  if (const char* why = large_mma_refusal(p, arch)) return why;
  const LargeMmaGeneralConfig c = large_mma_general_config(p, arch);
  return below(int64_t(1) << 31, {c.rows, c.tiles, c.blocks * p.out.c}) ? nullptr : "2^31 tiles";
}

inline void configure_large_mma_general(const Depthwise& p, const Arch& arch, Plan& plan) {
  const LargeMmaGeneralConfig c = large_mma_general_config(p, arch);
  plan.why = "banded matrices of any size";
  plan.tile_w = 8 * kLargeGeneralBlocks;
  plan.tile_h = 16;
  plan.threads = 32 * kLargeGeneralWarps;
  plan.blocks = c.blocks * p.out.c;
  plan.kernels = {kernel_of("kernels/depthwise/large_mma_general/kernel.cuh", "depthwise::depthwise_large_mma_general",
                            {p.in.dtype})};
  plan.config = c;
}

}  // namespace torch_conv::depthwise
