// The CUDA doors of the depth pass of 3-D boxes.
#include "box/depth.h"
#include "box/kernel_depth.cuh"

namespace torch_conv::box {

namespace {

DepthArgs depth_args(const BoxDepth& p, const Plan& plan, const DepthRuns& runs) {
  const bool integer = is_integer(p.source), extends = p.place.border == Border::constant;
  const double voxels = double(p.kd) * double(p.kh) * double(p.kw), value = p.outside / double(p.kh * p.kw);
  DepthArgs a{.sums = p.sums.data,
              .out = p.out,
              .in_n = p.sums.stride_n,
              .in_c = p.sums.stride_c,
              .in_d = p.sums.stride_d,
              .in_h = p.sums.stride_h,
              .in_w = runs.interleaved > 1 ? 1 : p.sums.stride_w,
              .out_w = runs.interleaved > 1 ? 1 : p.out.stride_w,
              .length = runs.length,
              .interleaved = runs.interleaved,
              .columns = runs.length / runs.pixels * runs.rows,
              .column_blocks = unsigned(depth_column_blocks(runs)),
              .chunks = unsigned(ceil_div(p.out.d, plan.tile_d)),
              .channels = unsigned(runs.channels),
              .d = int(p.sums.d),
              .w = int(p.sums.w),
              .plane_h = int(p.plane_h),
              .plane_w = int(p.plane_w),
              .kd = int(p.kd),
              .kh = int(p.kh),
              .kw = int(p.kw),
              .pad_z = int(p.place.pad_z),
              .pad_y = int(p.place.pad_y),
              .pad_x = int(p.place.pad_x),
              .chunk = plan.tile_d,
              .outside = extends ? p.outside : 0,
              .scale = p.scale,
              .area = !integer       ? 0
                      : p.scale == 1 ? 1
                                     : voxels,
              .border = p.place.border,
              .finish = p.place.border == Border::skip && p.place.normalized ? Finish::mean
                        : p.place.border == Border::zero_output              ? Finish::interior
                                                                             : Finish::scale,
              .whole = integer && is_integer(p.out.dtype)};
  // Means of 16-bit pixels and of a border value like them: |quotient| fits an int.
  a.exact = a.whole && voxels <= double(int64_t(1) << 36) &&
            (!extends || (value == std::rint(value) && std::abs(value) <= 65535));
  return a;
}

template <typename S, int V, typename Out, bool kPlain>
void launch_depth(const DepthArgs& args, const Plan& plan, void* stream) {
  if (plan.blocks > INT_MAX) throw std::runtime_error("torch_conv: box would need more than 2^31 - 1 blocks");
  box_depth<S, V, Out, kPlain><<<unsigned(plan.blocks), plan.threads, 0, static_cast<cudaStream_t>(stream)>>>(args);
  launch_check("box_depth");
}

template <typename S>
void run(const BoxDepth& p, const Plan& plan, void* stream) {
  constexpr int V = 16 / sizeof(S);
  const DepthRuns runs = depth_runs(p);
  const DepthArgs args = depth_args(p, plan, runs);
  if (runs.pixels == 1) return launch_depth<S, 1, General, false>(args, plan, stream);
  if (args.finish == Finish::mean || (args.area > 1 && !args.exact))
    return launch_depth<S, V, General, false>(args, plan, stream);
  with_type(p.out.dtype, [&](auto zero) { launch_depth<S, V, decltype(zero), true>(args, plan, stream); });
}

}  // namespace

Plan plan_depth_cuda(const BoxDepth& p, const Arch& arch, const char*) { return make_depth_plan(p, arch); }

void run_depth_cuda(const BoxDepth& p, const Plan& plan, void*, void* stream) {
  if (plan.blocks == 0) return;
  if (p.sums.dtype == Dtype::f64) return run<double>(p, plan, stream);
  run<float>(p, plan, stream);
}

}  // namespace torch_conv::box
