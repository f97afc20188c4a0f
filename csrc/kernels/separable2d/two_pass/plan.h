// TWO_PASS: which problems it serves, and its two launches. Pure.
#pragma once

#include "kernels/separable2d/shared/general_tile.h"

namespace torch_conv::separable2d {

void launch_two_pass(const Separable& p, const Plan& plan, const Site& site);

struct TwoPassConfig {
  GeneralTile tile;
  int64_t row_blocks;  // of the first launch
};

inline const char* two_pass_refusal(const Separable& p, const Arch&) { return general_refusal(p); }

inline void configure_two_pass(const Separable& p, const Arch&, Plan& plan) {
  constexpr const char* file = "kernels/separable2d/two_pass/kernel.cuh";
  const GeneralTile tile = general_tile(p);
  const int64_t groups = p.out.n * ceil_div(p.out.c, tile.channels);
  plan.why = "a window whose halo outweighs a tile";
  plan.tile_w = tile.pixels;
  plan.tile_h = kTwoPassRows;
  plan.threads = 32 * kWarps;
  plan.shared_bytes = int(shared_bytes(tile, kRowBlock, p.in.dtype));
  plan.blocks = general_blocks(p, tile, p.out.h, kTwoPassRows);
  plan.launches = 2;
  plan.scratch_bytes = groups * (p.in.h + 1) * p.out.w * tile.channels * acc_bytes(p.in.dtype);
  plan.kernels = {kernel_of(file, "separable2d::separable_rows", {p.in.dtype}),
                  kernel_of(file, "separable2d::separable_columns", {p.in.dtype == Dtype::f64 ? "double" : "float"})};
  plan.config = TwoPassConfig{tile, general_blocks(p, tile, p.in.h + 1, kRowBlock)};
}

}  // namespace torch_conv::separable2d
