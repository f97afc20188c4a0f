// ROWS_MMA: long windows along rows on tensor cores.
#pragma once

#include "kernels/depthwise/config.h"
#include "kernels/depthwise/rows_mma/params.h"
#include "kernels/depthwise/shared/row_layout.h"

namespace torch_conv::depthwise {

struct RowsMmaConfig {
  int blocks, tiles, sets;
  int64_t segments, columns, units;
};

void launch_rows_mma(const Depthwise& p, const Plan& plan, const Site& site);

inline RowsMmaConfig rows_mma_config(const Depthwise& p) {
  RowsMmaConfig config;
  const auto at = [](const Image& x) { return int64_t(reinterpret_cast<uintptr_t>(x.data) / 2); };
  const auto dense = [](int64_t count, int64_t stride) { return count == 1 ? 0 : stride; };
  const bool even =
      at(p.out) % 2 == 0 && dense(p.out.n, p.out.stride_n) % 2 == 0 && dense(p.out.c, p.out.stride_c) % 2 == 0;
  const bool one_shift = even && dense(p.in.n, p.in.stride_n) % 4 == 0 && dense(p.in.c, p.in.stride_c) % 4 == 0;
  const int64_t shift = one_shift ? (((at(p.in) - p.place.pad_x) % 4) + 4) % 4 : 3;
  config.blocks = int(ceil_div(15 + p.kw + shift, 16));
  const int64_t outputs = p.out.w + (even ? 0 : 1);
  int64_t least = 0;
  for (const int tiles : {8, 4, 2, 1}) {
    const int64_t segments = ceil_div(outputs, 16 * tiles), columns = segments * p.out.n;
    // The cost counts mma; loads and stores cost as much. k = 31, one NVIDIA H200, us with 8, 4, 2 and 1 tiles:
    //
    //     1024x256x202   88, 106, 130, 187
    //     1024x1024x64   -,   71,  88, 147
    //
    const int64_t cost = round_up(columns, 8) * (tiles * (config.blocks + 3) + config.blocks - 1);
    if (least && cost >= least) continue;
    least = cost;
    config.tiles = tiles, config.segments = segments, config.columns = columns;
  }
  // k = 31, one NVIDIA H200, us with two sets and with one: 64x768x1024 54, 58-65; 1024x1024x64 71, 76.
  config.sets = config.columns >= 16 ? 2 : 1;
  config.units = ceil_div(config.columns, 8 * config.sets);
  return config;
}

inline const char* rows_mma_refusal(const Depthwise& p, const Arch&) {
  if (p.sums == Sums::chain) return "sums not by one chain";
  if (!is_half(p.in.dtype)) return "no float16 or bfloat16";
  if (p.weights != p.in.dtype) return "windows of another dtype";
  if (const char* why = rows_layout_refusal(p)) return why;
  if (p.place.stride_x != 1 || p.place.dilation_x != 1) return "stride or dilation";
  if (p.kw > 63) return "more than 63 taps";
  // All rows of a channel share a band, and therefore a shift. The order of an output's sum does not depend on the
  // image's position in the batch.
  if (p.out.n > 1 && (p.in.stride_n % 4 != 0 || p.out.stride_n % 2 != 0)) return "images of different alignment";
  const RowsMmaConfig config = rows_mma_config(p);
  if (p.out.c * config.units >= int64_t(1) << 31 || config.columns >= int64_t(1) << 30) return "2^31 warps";
  return nullptr;
}

inline void configure_rows_mma(const Depthwise& p, const Arch&, Plan& plan) {
  const RowsMmaConfig config = rows_mma_config(p);
  plan.why = "long windows along rows as banded matrices";
  plan.tile_w = 16 * config.tiles;
  plan.tile_h = 8 * config.sets;
  plan.threads = 32 * kRowsMmaWarps;
  plan.blocks = ceil_div(p.out.c * config.units, kRowsMmaWarps);
  plan.kernels = {kernel_of("kernels/depthwise/rows_mma/kernel.cuh", "depthwise::depthwise_rows_mma",
                            {p.in.dtype, config.blocks, config.tiles, config.sets, argument_of(p.activation)})};
  plan.config = config;
}

}  // namespace torch_conv::depthwise
