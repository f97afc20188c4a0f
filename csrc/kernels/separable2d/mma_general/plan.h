// The problems that `mma_general` serves, its plan, and its kernel's arguments.
#pragma once

#include "kernels/separable2d/mma/plan.h"
#include "kernels/separable2d/mma_general/params.h"

namespace torch_conv::separable2d {

void launch_mma_general(const Separable& p, const Plan& plan, const Site& site);

inline const char* mma_general_refusal(const Separable& p, const Arch& arch) {
  if (const char* no = mma_refusal(p, arch)) return no;
  return MmaGeneralMemory::of(band_shape(p)).bytes <= arch.shared_bytes ? nullptr : "not enough shared memory";
}

inline void configure_mma_general(const Separable& p, const Arch& arch, Plan& plan) {
  const MmaPolicy s = band_shape(p);
  plan.algorithm = "tensor_core";
  plan.why = "the bits of mma, for any window up to 63x63";
  plan.tile_w = kMmaGeneralColumns;
  plan.tile_h = s.rows();
  plan.threads = 32 * s.bands();
  plan.shared_bytes = MmaGeneralMemory::of(s).bytes;
  plan.blocks = p.out.n * p.out.c * ceil_div(p.out.h, plan.tile_h) * ceil_div(p.out.w, plan.tile_w);
  plan.kernels = {
      kernel_of("kernels/separable2d/mma_general/kernel.cuh", "separable2d::separable_mma_general", {p.in.dtype})};
  plan.config = band_segment(p, s, arch);
}

inline MmaGeneralArgs mma_general_args(const Separable& p, const Plan& plan, const PassTaps& taps) {
  BandArgs args = band_args(p, plan, taps);
  args.order = TileOrder::of(ceil_div(p.out.w, plan.tile_w), ceil_div(p.out.h, plan.tile_h), p.out.c);
  args.segment = own_config<int>(plan);
  const MmaPolicy s = band_shape(p);
  return {.band = args, .shape = s, .memory = MmaGeneralMemory::of(s)};
}

}  // namespace torch_conv::separable2d
