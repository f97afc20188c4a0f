// The images that `mma_general` serves, its plan, and its kernel's arguments.
#pragma once

#include "kernels/direct2d/mma/plan.h"
#include "kernels/direct2d/mma_general/params.h"

namespace torch_conv::direct2d {

void launch_mma_general(const Direct& p, const Plan& plan, const Site& site);

inline MmaGeneralMemory mma_general_memory(const Direct& p) {
  return MmaGeneralMemory::of(mma_shape(p), mma_parts(p.in.dtype == Dtype::f16, p.taps.narrow));
}

inline const char* mma_general_refusal(const Direct& p, const Arch& arch) {
  if (const char* no = mma_refusal(p, arch)) return no;
  return mma_general_memory(p).bytes <= arch.shared_bytes ? nullptr : "not enough shared memory";
}

inline void configure_mma_general(const Direct& p, const Arch&, Plan& plan) {
  const MmaShape s = mma_shape(p);
  plan.algorithm = "tensor_core";
  plan.why = "the bits of mma, for any window up to 31x31";
  plan.tile_w = s.step(!mma_aligned(p));
  plan.tile_h = s.height;
  plan.threads = 32 * kMmaGeneralWarps;
  plan.shared_bytes = mma_general_memory(p).bytes;
  plan.blocks = p.out.n * p.out.c * ceil_div(p.out.h, plan.tile_h) * mma_across(p);
  plan.kernels = {kernel_of("kernels/direct2d/mma_general/kernel.cuh", "direct2d::direct2d_mma_general",
                            {p.in.dtype, p.taps.narrow})};
}

inline MmaGeneralArgs mma_general_args(const Direct& p, const Plan& plan) {
  MmaArgs args = mma_args(p, plan);
  args.order = TileOrder::of(mma_across(p), ceil_div(p.out.h, plan.tile_h), p.out.c);
  return {.mma = args,
          .shape = mma_shape(p),
          .memory = mma_general_memory(p),
          .step = plan.tile_w,
          .pixel = int(mma_channels(p))};
}

}  // namespace torch_conv::direct2d
