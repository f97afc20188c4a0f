// Shared by the plans of the depth pass: runs of elements, and the step from totals to outputs.
#pragma once

#include <algorithm>
#include <climits>
#include <cmath>

#include "kernels/box/config.h"
#include "kernels/box/depth/params.h"

namespace torch_conv::box {

// Contiguous elements of the sums and of the output: rows, planes or interleaved channels of them.
struct DepthRuns {
  int64_t length;    // elements of a run
  int64_t rows;      // runs of a plane
  int64_t channels;  // planes of a sample
  int64_t interleaved;
  int pixels;  // neighbours of one thread
};

inline DepthRuns depth_runs(const BoxDepth& p) {
  const Image &in = p.sums, &out = p.out;
  DepthRuns r{.length = in.w, .rows = in.h, .channels = in.c, .interleaved = 1, .pixels = 1};
  int64_t in_step = in.stride_w, out_step = out.stride_w;
  if (interleaved_channels(in, out) > 1)
    r.length = in.w * in.c, r.channels = 1, r.interleaved = in.c, in_step = out_step = 1;
  if (in.h > 1 && in.stride_h == r.length * in_step && out.stride_h == r.length * out_step)
    r.length *= in.h, r.rows = 1;
  const int64_t n = 16 / size_of(in.dtype);
  auto aligned = [&](const Image& x) {
    auto whole = [&](int64_t stride, int64_t count) { return count == 1 || stride % n == 0; };
    return reinterpret_cast<uintptr_t>(x.data) % (n * size_of(x.dtype)) == 0 && whole(x.stride_h, r.rows) &&
           whole(x.stride_d, x.d) && whole(x.stride_c, r.channels) && whole(x.stride_n, x.n);
  };
  if (in_step == 1 && out_step == 1 && r.length % n == 0 && aligned(in) && aligned(out)) r.pixels = int(n);
  return r;
}

inline int64_t depth_column_blocks(const DepthRuns& r) { return ceil_div(r.length / r.pixels * r.rows, kDepthThreads); }

// The step from totals to outputs.
struct DepthEnding {
  Finish finish;
  double area;        // the divisor of totals of whole numbers
  bool whole, exact;  // as in DepthArgs
};

inline DepthEnding depth_ending(const BoxDepth& p) {
  const bool integer = is_integer(p.source), extends = p.place.border == Border::constant;
  const double voxels = double(p.kd) * double(p.kh) * double(p.kw), value = p.outside / double(p.kh * p.kw);
  DepthEnding e{.finish = p.place.border == Border::skip && p.place.normalized ? Finish::mean_inside
                          : p.place.border == Border::zero_output              ? Finish::interior
                                                                               : Finish::scale,
                .area = p.scale == 1 ? 1 : voxels,
                .whole = integer && is_integer(p.out.dtype),
                .exact = false};
  // Means of 16-bit pixels and of a border value like them: |quotient| fits an int.
  e.exact = e.whole && voxels <= double(int64_t(1) << 36) &&
            (!extends || (value == std::rint(value) && std::abs(value) <= 65535));
  return e;
}

// The launch's data besides the plan.
struct DepthConfig {
  DepthRuns runs;
  DepthEnding ending;
};

void launch_depth(const BoxDepth& p, const Plan& plan, const Site& site);  // of every variant

inline const char* depth_size_refusal(const BoxDepth& p, const Arch&) {
  constexpr int64_t limit = INT_MAX / 4;
  const int64_t largest = std::max({p.sums.d, p.out.d, p.kd, p.kh, p.kw, p.sums.h, p.sums.w, p.plane_h, p.plane_w});
  return largest < limit ? nullptr : "the window or the volume is too deep";
}

}  // namespace torch_conv::box
