// Plan -> grid, block, shared memory, <<<>>>; one function per kernel.
#pragma once

#include <climits>

#include "direct2d/kernel_column.cuh"
#include "direct2d/kernel_general.cuh"
#include "direct2d/kernel_reg.cuh"
#include "direct2d/kernel_tile.cuh"
#include "direct2d/kernel_window.cuh"

namespace torch_conv::direct2d {

// A grid holds 2^31 - 1 blocks; that many tiles are more than any memory of today holds in images of a useful size.
inline unsigned grid_of(const Plan& plan) {
  if (plan.blocks > INT_MAX) throw std::runtime_error("torch_conv: direct2d would need more than 2^31 - 1 blocks");
  return unsigned(plan.blocks);
}

// Bytes of all windows of a problem; only host taps (never more than kInlineTapBytes) are copied.
inline ParamTaps param_taps(const Direct& p) {
  const int64_t per_channel = p.kh * p.kw * (p.in.c / p.groups);
  const int64_t channels = p.taps.stride_c ? p.out.c : 1, samples = p.taps.stride_n ? p.out.n : 1;
  return ParamTaps::from(p.taps, per_channel * channels * samples * (p.in.dtype == Dtype::f64 ? 8 : 4));
}

template <typename T, int K, bool kBulk, bool kAligned>
void launch_tile(const Direct& p, const Plan& plan, cudaStream_t stream) {
  constexpr TileShape shape = tile_shape(sizeof(T), K);
  constexpr int pack = tma::pack_of(sizeof(T));
  CUtensorMap map{};
  if (kBulk) map = tma::plane_map(p.in, shape.shared_width() / pack, shape.height() + K - 1, pack);
  allow_shared(direct2d_tile<T, K, kBulk, kAligned>, plan.shared_bytes);
  direct2d_tile<T, K, kBulk, kAligned><<<grid_of(plan), plan.threads, plan.shared_bytes, stream>>>(
      map, plane_args<T>(p, plan, kBulk ? lead_columns(p) : 0), param_taps(p));
  launch_check("direct2d_tile");
}

template <typename T, int K>
void launch_tile(const Direct& p, const Plan& plan, cudaStream_t stream) {
  if (std::strcmp(plan.variant, "tile_tma") != 0) return launch_tile<T, K, false, false>(p, plan, stream);
  if (aligned_rows(p.out) && lead_columns(p) == 0) return launch_tile<T, K, true, true>(p, plan, stream);
  return launch_tile<T, K, true, false>(p, plan, stream);
}

template <typename T, int K>
void launch_reg(const Direct& p, const Plan& plan, cudaStream_t stream) {
  direct2d_reg<T, K><<<grid_of(plan), plan.threads, 0, stream>>>(plane_args<T>(p, plan, 0), param_taps(p));
  launch_check("direct2d_reg");
}

template <typename T>
void launch_general(const Direct& p, const Plan& plan, cudaStream_t stream) {
  const int64_t fours = ceil_div(p.out.w, 4);
  const GeneralArgs args{.p = p,
                         .beside = Neighbours::of(p.beside, p.in),
                         .groups_of_four = fours,
                         .threads = p.out.n * p.out.c * p.out.h * fours,
                         .channels_inner = p.out.c > 1 && p.out.stride_c < p.out.stride_w,
                         .out_per_group = p.out.c / p.groups,
                         .in_per_group = p.in.c / p.groups};
  direct2d_general<T><<<grid_of(plan), plan.threads, 0, stream>>>(args, param_taps(p));
  launch_check("direct2d_general");
}

template <typename T>
void launch_window(const Direct& p, const Plan& plan, cudaStream_t stream) {
  const WindowShape shape = window_shape(p);
  const WindowArgs args{.p = p,
                        .beside = Neighbours::of(p.beside, p.in),
                        .pitch = int(shape.pitch),
                        .rows = int(shape.rows),
                        .tap_pitch = int(shape.tap_pitch),
                        .tiles_x = int(ceil_div(p.out.w, plan.tile_w)),
                        .tiles_y = int(ceil_div(p.out.h, plan.tile_h)),
                        .in_per_group = int(p.in.c / p.groups),
                        .out_per_group = int(p.out.c / p.groups)};
  allow_shared(direct2d_window<T>, plan.shared_bytes);
  direct2d_window<T><<<grid_of(plan), plan.threads, plan.shared_bytes, stream>>>(args, param_taps(p));
  launch_check("direct2d_window");
}

template <typename T, int N, bool kAny, int KH = 0>
void launch_column(const Direct& p, const Plan& plan, const ParamTaps& taps, cudaStream_t stream) {
  const ColumnArgs args{.in = p.in.data,
                        .out = p.out,
                        .in_n = p.in.stride_n,
                        .in_c = p.in.stride_c,
                        .row_bytes = unsigned(p.in.stride_h * sizeof(T)),
                        .h = int(p.in.h),
                        .kh = int(p.kh),
                        .pad = int(p.place.pad_y),
                        .tiles_x = unsigned(ceil_div(p.out.w, plan.tile_w)),
                        .tiles_y = unsigned(ceil_div(p.out.h, plan.tile_h)),
                        .channels_out = unsigned(p.out.c),
                        .multiplier = unsigned(p.out.c / p.groups),
                        .border = p.place.border,
                        .value = p.place.value,
                        .taps_n = p.taps.stride_n,
                        .taps_c = p.taps.stride_c,
                        .bias = p.bias};
  direct2d_column<T, N, kAny, KH><<<grid_of(plan), plan.threads, 0, stream>>>(args, taps);
  launch_check("direct2d_column");
}

template <typename T>
void launch_column(const Direct& p, const Plan& plan, cudaStream_t stream) {
  constexpr int N = sizeof(T) == 8 ? 2 : 4;
  const Direct column = column_problem(p);
  const ParamTaps taps = param_taps(p);
  if (plan.tile_w == 32) return launch_column<T, 1, true>(column, plan, taps, stream);
  if (p.in.dtype != p.out.dtype) return launch_column<T, N, true>(column, plan, taps, stream);
  if constexpr (std::is_same_v<T, float>) switch (p.kh) {
      case 3: return launch_column<T, N, false, 3>(column, plan, taps, stream);
      case 5: return launch_column<T, N, false, 5>(column, plan, taps, stream);
      case 7: return launch_column<T, N, false, 7>(column, plan, taps, stream);
      case 9: return launch_column<T, N, false, 9>(column, plan, taps, stream);
      case 11: return launch_column<T, N, false, 11>(column, plan, taps, stream);
      case 13: return launch_column<T, N, false, 13>(column, plan, taps, stream);
      case 15: return launch_column<T, N, false, 15>(column, plan, taps, stream);
    }
  launch_column<T, N, false>(column, plan, taps, stream);
}

// The switch over compiled windows for one element type; instantiated in csrc/instances, one type a file.
template <typename T>
void launch_windows(const Direct& p, const Plan& plan, cudaStream_t stream) {
  if (std::strcmp(plan.variant, "reg") == 0) {
    if constexpr (sizeof(T) == 4)
      return p.kh == 3 ? launch_reg<T, 3>(p, plan, stream) : launch_reg<T, 5>(p, plan, stream);
    if constexpr (sizeof(T) == 2) return launch_reg<T, 3>(p, plan, stream);
  }
  switch (p.kh) {
    case 3: return launch_tile<T, 3>(p, plan, stream);
    case 5: return launch_tile<T, 5>(p, plan, stream);
    case 7: return launch_tile<T, 7>(p, plan, stream);
  }
  throw std::runtime_error("torch_conv: direct2d has no instance for its own plan");
}

}  // namespace torch_conv::direct2d
