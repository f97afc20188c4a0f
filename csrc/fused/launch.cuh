// Plan -> grid, block, shared memory, <<<>>>.
#pragma once

#include <climits>

#include "fused/kernel_tile.cuh"

namespace torch_conv::fused {

template <class P>
Args args_of(const Fused& p, const Plan& plan) {
  double number = 0;
  for (int s = 0; s < p.count; ++s) number += p.stages[s].number;  // at most one has one, see plan.h
  const Edges edge = edges<P>(p);
  return {.in = p.in.data,
          .out = p.out.data,
          .in_n = p.in.stride_n,
          .in_c = p.in.stride_c,
          .in_h = p.in.stride_h,
          .out_n = p.out.stride_n,
          .out_c = p.out.stride_c,
          .out_h = p.out.stride_h,
          .out_o = p.stride_output,
          .h = int(p.in.h),
          .w = int(p.in.w),
          .rows_out = int(p.out.h),
          .columns_out = int(p.out.w),
          .first = p.valid ? P::reach : 0,
          .order = TileOrder::of(ceil_div(p.in.w, plan.tile_w), ceil_div(p.in.h, plan.tile_h), p.in.c),
          .extend = edge.extend,
          .margin = edge.margin,
          .border = p.border,
          .value = float(p.value),
          .number = float(number),
          .bulk = std::strcmp(plan.variant, "tile_tma") == 0};
}

template <class P>
TapsOf<P> taps_of(const Fused& p) {
  TapsOf<P> taps{};
  P::copy_taps(p, taps.v);
  return taps;
}

template <class P, typename T, typename O, bool kAligned>
void launch_tile(const Fused& p, const Plan& plan, cudaStream_t stream) {
  constexpr TileShape S = tile_shape<P>(sizeof(T));
  constexpr int pack = tma::pack_of(sizeof(T));
  const Args args = args_of<P>(p, plan);
  CUtensorMap map{};
  if (args.bulk) map = tma::plane_map(p.in, S.pitch() / pack, S.box_h(), pack);
  allow_shared(fused_tile<P, T, O, kAligned>, plan.shared_bytes);
  fused_tile<P, T, O, kAligned>
      <<<unsigned(plan.blocks), plan.threads, plan.shared_bytes, stream>>>(map, args, taps_of<P>(p));
  launch_check("fused_tile");
}

template <class P, typename T, typename O>
void launch_pipeline(const Fused& p, const Plan& plan, cudaStream_t stream) {
  if (plan.blocks > INT_MAX) throw std::runtime_error("torch_conv: fused would need more than 2^31 - 1 blocks");
  constexpr int kWord = tile_shape<P>(sizeof(T)).columns / P::stride;
  if (!p.valid && whole_words(p, kWord)) return launch_tile<P, T, O, true>(p, plan, stream);
  launch_tile<P, T, O, false>(p, plan, stream);
}

// The switch over compiled pipelines for one element type; instantiated in csrc/instances, one type a file.
template <typename T>
void launch(const Fused& p, const Plan& plan, cudaStream_t stream) {
  const bool served = Compiled::with(p, [&](auto pipeline) {
    using P = decltype(pipeline);
    if constexpr (std::is_same_v<T, uint8_t>)
      if (p.out.dtype == Dtype::f32) return launch_pipeline<P, T, float>(p, plan, stream);
    launch_pipeline<P, T, T>(p, plan, stream);
  });
  if (!served) throw std::runtime_error("torch_conv: fused has no instance for its own plan");
}

}  // namespace torch_conv::fused
