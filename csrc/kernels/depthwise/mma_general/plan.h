// MMA_GENERAL: PLANES_MMA and ROWS_MMA with all sizes at run time, for calls whose kernel is not compiled yet.
#pragma once

#include "kernels/depthwise/mma_general/params.h"
#include "kernels/depthwise/planes_mma/plan.h"
#include "kernels/depthwise/rows_mma/plan.h"

namespace torch_conv::depthwise {

void launch_mma_general(const Depthwise& p, const Plan& plan, const Site& site);

struct MmaGeneralConfig {
  MmaOrder order;
  int64_t across, of_strip, strips;  // tiles of a row of tiles, rows of tiles of a strip, strips of a plane
  int64_t tiles, blocks;             // of a channel
};

inline MmaGeneralConfig mma_general_config(const Depthwise& p, const MmaOrder& order, int64_t columns) {
  MmaGeneralConfig c{.order = order,
                     .across = ceil_div(columns, order.tile_columns()),
                     .of_strip = ceil_div(order.strip_rows, order.tile_rows),
                     .strips = ceil_div(p.out.h, order.strip_rows)};
  c.tiles = p.out.n * c.strips * c.of_strip * c.across;
  c.blocks = ceil_div(c.tiles, 8 * kMmaGeneralGroups * kMmaGeneralWarps);
  return c;
}

inline MmaGeneralConfig planes_mma_general_config(const Depthwise& p, const Arch& arch) {
  const PlanesMmaConfig c = planes_mma_config(p, arch);
  const MmaOrder order{
      .tile_rows = 2, .steps = int(p.kh) + 1, .fours = c.shape.load == 4, .lead = c.lead, .strip_rows = c.shape.rows};
  return mma_general_config(p, order, p.out.w);
}

inline MmaGeneralConfig rows_mma_general_config(const Depthwise& p) {
  const MmaOrder order{.tile_rows = 1, .steps = rows_mma_config(p).blocks, .fours = true, .lead = 0, .strip_rows = 1};
  return mma_general_config(p, order, p.out.w + 1);  // the first tile may start one column before the image
}

inline const char* mma_general_refusal(const Depthwise& p, const MmaGeneralConfig& c) {
  return below(int64_t(1) << 31, {c.tiles, c.blocks * p.out.c}) ? nullptr : "2^31 tiles";
}

inline const char* planes_mma_general_refusal(const Depthwise& p, const Arch& arch) {
  const char* why = planes_mma_refusal(p, arch);
  return why ? why : mma_general_refusal(p, planes_mma_general_config(p, arch));
}

inline const char* rows_mma_general_refusal(const Depthwise& p, const Arch& arch) {
  const char* why = rows_mma_refusal(p, arch);
  return why ? why : mma_general_refusal(p, rows_mma_general_config(p));
}

inline void configure_mma_general(const Depthwise& p, const MmaGeneralConfig& c, Plan& plan) {
  plan.tile_w = c.order.tile_columns();
  plan.tile_h = c.order.tile_rows;
  plan.threads = 32 * kMmaGeneralWarps;
  plan.blocks = c.blocks * p.out.c;
  plan.kernels = {
      kernel_of("kernels/depthwise/mma_general/kernel.cuh", "depthwise::depthwise_mma_general", {p.in.dtype})};
  plan.config = c;
}

inline void configure_planes_mma_general(const Depthwise& p, const Arch& arch, Plan& plan) {
  plan.why = "small planes of 16-bit pixels of any size on tensor cores";
  configure_mma_general(p, planes_mma_general_config(p, arch), plan);
}

inline void configure_rows_mma_general(const Depthwise& p, const Arch&, Plan& plan) {
  plan.why = "windows along rows of any length as banded matrices";
  configure_mma_general(p, rows_mma_general_config(p), plan);
}

}  // namespace torch_conv::depthwise
