// From a problem and its plan to grid, shared memory and parameters.
#pragma once

#include <climits>
#include <cstring>

#include "separable3d/kernel_march.cuh"

namespace torch_conv::separable3d {

static_assert(sizeof(MarchParams) + sizeof(CUtensorMap) <= 4096, "kernel parameters beyond 4 KiB");

inline MarchParams march_params(const Separable& p, const Plan& plan) {
  const MarchShape shape = march_shape(size_of(p.in.dtype), int(p.kw));
  MarchParams a{.in = p.in.data,
                .out = p.out.data,
                .in_stride_n = p.in.stride_n,
                .in_stride_c = p.in.stride_c,
                .in_stride_d = p.in.stride_d,
                .in_stride_h = p.in.stride_h,
                .out_stride_n = p.out.stride_n,
                .out_stride_c = p.out.stride_c,
                .out_stride_d = p.out.stride_d,
                .out_stride_h = p.out.stride_h,
                .in_d = int(p.in.d),
                .in_h = int(p.in.h),
                .in_w = int(p.in.w),
                .out_d = int(p.out.d),
                .out_h = int(p.out.h),
                .out_w = int(p.out.w),
                .pad_z = int(p.place.pad_z),
                .pad_y = int(p.place.pad_y),
                .pad_x = int(p.place.pad_x),
                .lead = lead_columns(p),
                .chunk = plan.tile_d,
                .tiles_x = unsigned(ceil_div(p.out.w + lead_columns(p), plan.tile_w)),
                .tiles_y = unsigned(ceil_div(p.out.h, plan.tile_h)),
                .chunks = unsigned(ceil_div(p.out.d, plan.tile_d)),
                .channels = unsigned(p.out.c),
                .value = float(p.place.value),
                .border = p.place.border,
                .patch = patches_border(p.place.border, p.place.value)};
  take_taps({&p.taps_x, &p.taps_y, &p.taps_z}, p.out.n, p.out.c, p.kw, a.windows, a.taps);
  return a;
}

template <typename T, int K>
void launch_march(const Separable& p, const Plan& plan, cudaStream_t stream) {
  constexpr MarchShape shape = march_shape(sizeof(T), K);
  constexpr int pack = 4 / sizeof(T);
  if (plan.blocks > INT_MAX) throw std::runtime_error("torch_conv: separable3d would need more than 2^31 - 1 blocks");
  const CUtensorMap map = tma::volume_map(p.in, shape.pitch() / pack, shape.box_h(), pack);
  constexpr bool kMayFix = fixed_taps_help(K);
  auto* kernel = kMayFix && fixed_taps(p) ? separable3d_march<T, K, kMayFix> : separable3d_march<T, K, false>;
  allow_shared(kernel, plan.shared_bytes);
  kernel<<<unsigned(plan.blocks), plan.threads, plan.shared_bytes, stream>>>(march_params(p, plan), map);
  launch_check("separable3d_march");
}

}  // namespace torch_conv::separable3d
