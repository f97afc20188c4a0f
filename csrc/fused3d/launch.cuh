// From a problem and its plan to grid, shared memory and parameters.
#pragma once

#include <climits>
#include <cmath>
#include <cstring>

#include "fused3d/kernel_march.cuh"

namespace torch_conv::fused3d {

static_assert(sizeof(MarchParams) + sizeof(CUtensorMap) <= 4096, "kernel parameters beyond 4 KiB");

inline MarchParams march_params(const Fused& p, const Plan& plan) {
  auto even = [](int64_t stride, int64_t count) { return count == 1 || stride % 2 == 0; };
  const bool pairs = reinterpret_cast<uintptr_t>(p.out.data) % (2 * size_of(p.out.dtype)) == 0 && p.out.w % 2 == 0 &&
                     even(p.out.stride_h, p.out.h) && even(p.out.stride_d, p.out.d) && even(p.out.stride_c, p.out.c) &&
                     even(p.out.stride_n, p.out.n);
  MarchParams a{
      .in = p.in.data,
      .out = p.out.data,
      .in_stride_n = p.in.stride_n,
      .in_stride_c = p.in.stride_c,
      .in_stride_d = p.in.stride_d,
      .in_stride_h = p.in.stride_h,
      .out_stride_n = p.out.stride_n,
      .out_stride_c = p.out.stride_c,
      .out_stride_d = p.out.stride_d,
      .out_stride_h = p.out.stride_h,
      .d = int(p.in.d),
      .h = int(p.in.h),
      .w = int(p.in.w),
      .chunk = plan.tile_d,
      .tiles_x = unsigned(ceil_div(p.out.w, plan.tile_w)),
      .tiles_y = unsigned(ceil_div(p.out.h, plan.tile_h)),
      .chunks = unsigned(ceil_div(p.out.d, plan.tile_d)),
      .channels = unsigned(p.out.c),
      .value = float(p.value),
      .number = float(p.stages[1].number),
      .border = p.border,
      .patch = patches_border(p.border, p.value),
      .difference = is_difference(p.stages[1]) && (p.border != Border::constant || std::isfinite(float(p.value))),
      .pairs = pairs};
  for (int i = 0; i < 3; ++i) {
    const Taps* axes[] = {&p.stages[1].taps_x[i], &p.stages[1].taps_y[i], &p.stages[1].taps_z[i]};
    for (int axis = 0; axis < 3; ++axis)
      for (int j = 0; j < 3; ++j) a.gradient[i][axis][j] = tap(*axes[axis], j);
  }
  const Stage& blur = p.stages[0];
  take_taps({&blur.taps_x[0], &blur.taps_y[0], &blur.taps_z[0]}, p.out.n, p.out.c, blur.kw, a.windows, a.taps);
  return a;
}

template <typename T, typename O, int K>
void launch_march(const Fused& p, const Plan& plan, cudaStream_t stream) {
  constexpr MarchShape shape = march_shape(sizeof(T), K);
  constexpr int pack = 4 / sizeof(T);
  if (plan.blocks > INT_MAX) throw std::runtime_error("torch_conv: fused3d would need more than 2^31 - 1 blocks");
  const CUtensorMap map = tma::volume_map(p.in, shape.pitch() / pack, shape.box_h(), pack);
  auto* kernel = fused3d_march<T, O, K>;
  allow_shared(kernel, plan.shared_bytes);
  kernel<<<unsigned(plan.blocks), plan.threads, plan.shared_bytes, stream>>>(march_params(p, plan), map);
  launch_check("fused3d_march");
}

}  // namespace torch_conv::fused3d
