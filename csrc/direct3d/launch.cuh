// Plan -> grid, block, shared memory, <<<>>>; one function per kernel.
#pragma once

#include <climits>

#include "direct3d/kernel_channels.cuh"
#include "direct3d/kernel_general.cuh"
#include "direct3d/kernel_march.cuh"
#include "direct3d/kernel_planes.cuh"
#include "direct3d/kernel_window.cuh"

namespace torch_conv::direct3d {

// A grid holds 2^31 - 1 blocks; that many tiles are more than any memory of today holds in volumes of a useful size.
inline unsigned grid_of(const Plan& plan) {
  if (plan.blocks > INT_MAX) throw std::runtime_error("torch_conv: direct3d would need more than 2^31 - 1 blocks");
  return unsigned(plan.blocks);
}

// Bytes of all windows of a problem; only host taps (never more than kInlineTapBytes) are copied.
inline ParamTaps param_taps(const Direct& p) {
  const int64_t per_channel = p.kd * p.kh * p.kw * (p.in.c / p.groups);
  const int64_t channels = p.taps.stride_c ? p.out.c : 1, samples = p.taps.stride_n ? p.out.n : 1;
  return ParamTaps::from(p.taps, per_channel * channels * samples * (p.in.dtype == Dtype::f64 ? 8 : 4));
}

template <typename T, int K, bool kWide, bool kPatched, bool kBulk, bool kConstant>
void launch_march(const Direct& p, const Plan& plan, cudaStream_t stream) {
  constexpr MarchShape shape = march_shape(sizeof(T), K, kWide, kPatched);
  constexpr auto kernel = direct3d_march<T, K, code_of(shape), kBulk, kConstant>;
  const int stages = (plan.shared_bytes - march_tap_bytes(K)) / shape.stage_bytes(sizeof(T), K);
  CUtensorMap map{}, side{};
  if (kBulk) {
    map = tma::volume_map(p.in, shape.width(), shape.rows_in(K));
    side = tma::volume_map(p.in, 16 / sizeof(T), shape.rows_in(K));
  }
  MarchTaps<K, kConstant> taps;
  if constexpr (kConstant) memcpy(taps.tap, p.taps.data, sizeof(taps.tap));
  else taps = {param_taps(p)};
  allow_shared(kernel, plan.shared_bytes);
  kernel<<<grid_of(plan), plan.threads, plan.shared_bytes, stream>>>(map, side, volume_args<T>(p, plan, stages), taps);
  launch_check("direct3d_march");
}

template <typename T, int K, bool kWide, bool kPatched>
bool launch_march_if(const Direct& p, const Plan& plan, cudaStream_t stream) {
  constexpr MarchShape shape = march_shape(sizeof(T), K, kWide, kPatched);
  if (plan.tile_w != shape.width() || plan.tile_h != shape.height()) return false;
  // Larger windows are not on the host, and float32 is bound by memory.
  constexpr bool constant_helps = K == 3 && sizeof(T) < 4;
  const bool one_window = (p.taps.stride_c == 0 || p.out.c == 1) && (p.taps.stride_n == 0 || p.out.n == 1);
  if (std::strcmp(plan.variant, "march_tma") != 0) launch_march<T, K, kWide, kPatched, false, false>(p, plan, stream);
  else if (constant_helps && p.taps.on_host && one_window)
    launch_march<T, K, kWide, kPatched, true, constant_helps>(p, plan, stream);
  else launch_march<T, K, kWide, kPatched, true, false>(p, plan, stream);
  return true;
}

template <typename T, int K>
void launch_march(const Direct& p, const Plan& plan, cudaStream_t stream) {
  if (launch_march_if<T, K, false, false>(p, plan, stream)) return;
  if constexpr (K == 3 && sizeof(T) > 1)
    if (launch_march_if<T, K, true, false>(p, plan, stream)) return;
  if constexpr (K == 3 && sizeof(T) == 4)
    if (launch_march_if<T, K, false, true>(p, plan, stream) || launch_march_if<T, K, true, true>(p, plan, stream))
      return;
  throw std::runtime_error("torch_conv: direct3d has no instance for its own plan");
}

template <typename T>
void launch_march(const Direct& p, const Plan& plan, cudaStream_t stream) {
  switch (p.kh) {
    case 3: return launch_march<T, 3>(p, plan, stream);
    case 5: return launch_march<T, 5>(p, plan, stream);
    case 7: return launch_march<T, 7>(p, plan, stream);
  }
  throw std::runtime_error("torch_conv: direct3d has no instance for its own plan");
}

template <typename T, bool Large>
void launch_window(const Direct& p, const Plan& plan, cudaStream_t stream) {
  const WindowShape shape = window_shape(p, Large, plan.tile_w);
  const WindowArgs args{.p = p,
                        .part = int(shape.part),
                        .pitch = int(shape.pitch),
                        .rows = int(shape.rows),
                        .tap_pitch = int(shape.tap_pitch),
                        .tiles_x = int(ceil_div(p.out.w, plan.tile_w)),
                        .tiles_y = int(ceil_div(p.out.h, plan.tile_h)),
                        .width_log2 = shape.width == 128  ? 7
                                      : shape.width == 64 ? 6
                                                          : 5,
                        .in_per_group = int(p.in.c / p.groups),
                        .out_per_group = int(p.out.c / p.groups)};
  allow_shared(direct3d_window<T, Large>, plan.shared_bytes);
  direct3d_window<T, Large><<<grid_of(plan), plan.threads, plan.shared_bytes, stream>>>(args, param_taps(p));
  launch_check("direct3d_window");
}

template <typename T>
void launch_general(const Direct& p, const Plan& plan, cudaStream_t stream) {
  const int64_t fours = ceil_div(p.out.w, 4);
  const GeneralArgs args{.p = p,
                         .groups_of_four = fours,
                         .threads = p.out.n * p.out.c * p.out.d * p.out.h * fours,
                         .channels_inner = p.out.c > 1 && p.out.stride_c < p.out.stride_w,
                         .out_per_group = p.out.c / p.groups,
                         .in_per_group = p.in.c / p.groups};
  direct3d_general<T><<<grid_of(plan), plan.threads, 0, stream>>>(args, param_taps(p));
  launch_check("direct3d_general");
}

template <typename T, int PX, int RY, int kWarps, bool kInPlace>
void launch_planes(const Direct& p, const Plan& plan, const PlanesShape& shape, cudaStream_t stream) {
  constexpr auto kernel = direct3d_planes<T, PX, RY, kWarps, kInPlace>;
  // The barriers count too: ask also for what is just below 48 KiB.
  allow_shared(kernel, std::max(plan.shared_bytes, 48 * 1024 + 1));
  kernel<<<grid_of(plan), plan.threads, plan.shared_bytes, stream>>>(planes_args<T>(p, plan, shape), param_taps(p));
  launch_check("direct3d_planes");
}

template <typename T>
void launch_planes(const Direct& p, const Plan& plan, cudaStream_t stream) {
  const PlanesShape s = planes_shape(p, plan);
  switch (s.channels ? s.tile.px * 16 + s.tile.ry : 0) {
    case 8 * 16 + 7: return launch_planes<T, 8, 7, 8, true>(p, plan, s, stream);
    case 8 * 16 + 4: return launch_planes<T, 8, 4, 12, true>(p, plan, s, stream);
    case 4 * 16 + 7: return launch_planes<T, 4, 7, 12, true>(p, plan, s, stream);
    case 2 * 16 + 7:
      return s.in_place ? launch_planes<T, 2, 7, 16, true>(p, plan, s, stream)
                        : launch_planes<T, 2, 7, 16, false>(p, plan, s, stream);
  }
  throw std::runtime_error("torch_conv: direct3d has no instance for its own plan");
}

template <typename T>
void launch_channels(const Direct& p, const Plan& plan, cudaStream_t stream) {
  allow_shared(direct3d_channels<T>, plan.shared_bytes);
  direct3d_channels<T>
      <<<grid_of(plan), plan.threads, plan.shared_bytes, stream>>>(channels_args<T>(p, plan), param_taps(p));
  launch_check("direct3d_channels");
}

// The switch over the kernels for one element type; instantiated in csrc/instances, one type a file.
template <typename T>
void launch(const Direct& p, const Plan& plan, cudaStream_t stream) {
  const auto is = [&](const char* name) { return std::strcmp(plan.variant, name) == 0; };
  if (is("general")) return launch_general<T>(p, plan, stream);
  if (is("window")) {
    if (plan.tile_d > 1) return launch_window<T, true>(p, plan, stream);
    return launch_window<T, false>(p, plan, stream);
  }
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, half_t> || std::is_same_v<T, bhalf_t>) {
    if (is("channels")) return launch_channels<T>(p, plan, stream);
    if (is("planes")) return launch_planes<T>(p, plan, stream);
  }
  if constexpr (!std::is_same_v<T, double>)
    if (is("march_tma") || is("march")) return launch_march<T>(p, plan, stream);
  throw std::runtime_error("torch_conv: direct3d has no instance for its own plan");
}

}  // namespace torch_conv::direct3d
