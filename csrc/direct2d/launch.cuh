// Plan -> grid, block, shared memory, <<<>>>; one function per kernel.
#pragma once

#include "direct2d/kernel_general.cuh"
#include "direct2d/kernel_reg.cuh"
#include "direct2d/kernel_tile.cuh"

namespace torch_conv::direct2d {

// Bytes of all windows of a problem; only host taps (never more than kInlineTapBytes) are copied.
inline ParamTaps param_taps(const Direct2d& p) {
  const int64_t per_channel = p.kh * p.kw * (p.in.c / p.groups);
  const int64_t channels = p.taps.stride_c ? p.out.c : 1, samples = p.taps.stride_n ? p.out.n : 1;
  return ParamTaps::from(p.taps, per_channel * channels * samples * (p.in.dtype == Dtype::f64 ? 8 : 4));
}

template <typename T, int K, bool kBulk>
void launch_tile(const Direct2d& p, const Plan& plan, cudaStream_t stream) {
  constexpr TileShape shape = tile_shape(sizeof(T), K);
  constexpr int pack = tile_pack(sizeof(T));
  CUtensorMap map{};
  if (kBulk) map = tma::plane_map(p.in, shape.shared_width() / pack, shape.height() + K - 1, pack);
  allow_shared(direct2d_tile<T, K, kBulk>, plan.shared_bytes);
  direct2d_tile<T, K, kBulk>
      <<<unsigned(plan.blocks), plan.threads, plan.shared_bytes, stream>>>(map, plane_args<T>(p, plan), param_taps(p));
  launch_check("direct2d_tile");
}

template <typename T, int K>
void launch_reg(const Direct2d& p, const Plan& plan, cudaStream_t stream) {
  direct2d_reg<T, K><<<unsigned(plan.blocks), plan.threads, 0, stream>>>(plane_args<T>(p, plan), param_taps(p));
  launch_check("direct2d_reg");
}

template <typename T>
void launch_general(const Direct2d& p, const Plan& plan, cudaStream_t stream) {
  const int64_t fours = ceil_div(p.out.w, 4);
  const GeneralArgs args{.p = p,
                         .groups_of_four = fours,
                         .threads = p.out.n * p.out.c * p.out.h * fours,
                         .channels_inner = p.out.c > 1 && p.out.stride_c < p.out.stride_w,
                         .out_per_group = p.out.c / p.groups,
                         .in_per_group = p.in.c / p.groups};
  direct2d_general<T><<<unsigned(plan.blocks), plan.threads, 0, stream>>>(args, param_taps(p));
  launch_check("direct2d_general");
}

// The switch over compiled windows for one element type; instantiated in csrc/instances, one type a file.
template <typename T>
void launch_windows(const Direct2d& p, const Plan& plan, cudaStream_t stream) {
  const bool bulk = std::strcmp(plan.variant, "tile_tma") == 0;
  if (std::strcmp(plan.variant, "reg") == 0) {
    if constexpr (sizeof(T) == 4)
      return p.kh == 3 ? launch_reg<T, 3>(p, plan, stream) : launch_reg<T, 5>(p, plan, stream);
    if constexpr (sizeof(T) == 2) return launch_reg<T, 3>(p, plan, stream);
  } else if (p.kh == 3) {
    return bulk ? launch_tile<T, 3, true>(p, plan, stream) : launch_tile<T, 3, false>(p, plan, stream);
  } else if (p.kh == 5) {
    return bulk ? launch_tile<T, 5, true>(p, plan, stream) : launch_tile<T, 5, false>(p, plan, stream);
  } else if (p.kh == 7) {
    return bulk ? launch_tile<T, 7, true>(p, plan, stream) : launch_tile<T, 7, false>(p, plan, stream);
  }
  throw std::runtime_error("torch_conv: direct2d has no instance for its own plan");
}

}  // namespace torch_conv::direct2d
