// BoxDepth + Arch -> Plan -> parameters, of the depth pass of a 3-D box. Pure.
#pragma once

#include "kernels/box/plan.h"

namespace torch_conv::box {

inline Plan plan_cuda(const BoxDepth& p, const Arch& arch, const char* pinned) {
  return choose(kDepthCandidates, p, arch, pinned,
                {.algorithm = "box", .bytes = bytes_of(p.sums) + bytes_of(p.out), .flops = 2.0 * elements_of(p.out)});
}

inline DepthArgs depth_args(const BoxDepth& p, const Plan& plan, const DepthConfig& config) {
  const auto& [runs, ending] = config;
  const double voxels = double(p.kd) * double(p.kh) * double(p.kw);
  const int phase = is_integer(p.source) ? 0 : position_in_group(p.first_plane);
  return {.sums = p.sums.data,
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
          .chunks = unsigned(ceil_div(phase + p.out.d, plan.tile_d)),
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
          .outside = p.place.border == Border::constant ? p.outside : 0,
          .scale = p.scale,
          .area = ending.area,
          .border = p.place.border,
          .finish = ending.finish,
          .whole = ending.whole,
          .exact = ending.exact,
          .phase = phase,
          .reciprocal = reciprocal_of(p.sums.dtype == Dtype::f64, voxels),
          .divides = p.scale != 1};
}

}  // namespace torch_conv::box
