// The problems that `streaming` serves, its plan, and its kernels' arguments.
#pragma once

#include "core/refusals.h"
#include "kernels/weight_gradient/problem.h"
#include "kernels/weight_gradient/streaming/params.h"

namespace torch_conv::weight_gradient {

void launch_streaming(const WeightGradient& p, const Plan& plan, const Site& site);

struct GradientConfig {
  StreamingPolicy policy;
  int64_t strips;  // of an image's columns
  int64_t bands;   // of an image's steps
  int64_t band;    // steps of a band
  int64_t splits;  // the grid's x: blocks that share a channel's items
  int64_t groups;  // the grid's y: groups of channels
  int64_t rounds;  // the grid's z: groups of rows of taps
};

// The most pixels that one load may take from every row of an image.
inline int64_t unit_of(const Image& x) {
  if (x.stride_w != 1) return 1;
  int64_t unit = 16 / size_of(x.dtype);
  while (unit > 1 && (x.w % unit != 0 || !rows_start_on(x, unit * size_of(x.dtype)))) unit /= 2;
  return unit;
}

// Rows of taps of one block: equal parts of the window. Registers hold the sums, rows of the gradient, and the pixels
// of two rows of the image, packed in half precision. Beyond the bounds ptxas spills more than a few words. Wide loads
// take fewer addresses.
inline int64_t taps_at_once(const WeightGradient& p, int64_t unit) {
  const int64_t span = 3 * p.place.stride_x + p.kw;
  int64_t rows = std::max<int64_t>(1, (unit > 1 ? 62 : 56) / p.kw);
  if (size_of(p.in.dtype) == 4)
    while (rows > 1 && rows * p.kw + 2 * span + 4 * rows > (unit > 1 ? 140 : 97)) --rows;
  return ceil_div(p.kh, ceil_div(p.kh, rows));
}

inline GradientConfig streaming_config(const WeightGradient& p, const Arch& arch) {
  const Placement& s = p.place;
  const bool inner = channels_innermost(p.in);
  GradientConfig c{};
  const int64_t aligned = inner ? 1 : std::min(unit_of(p.in), unit_of(p.grad));
  const int64_t rows = taps_at_once(p, aligned), rounds = c.rounds = ceil_div(p.kh, rows);
  // Columns of a thread. 7x7 has registers for 4: 6 spill. float32, us of 4 and 8 columns, one NVIDIA H200:
  //
  //     64x96x56x56   3x3 channels_last 51.4, 48.4; 5x5 channels_last 76.8, 75.2; 5x5 planes 64.1, 52.0
  //     64x768x14x14  3x3 channels_last 31.6, 27.8; 3x3 planes, whose rows are unaligned, 35.8, 59.9
  int columns = rows * p.kw <= 25 && (inner || aligned >= 4) ? 8 : 4;
  while (columns > 1 && columns / 2 >= p.grad.w) columns /= 2;
  const int unit = int(std::min<int64_t>(aligned, columns));
  // Resident blocks: with four, 7x7 spills in float32 and where lanes are channels. 7x7 64x96x56x56, us, three and
  // four: float32 77, 86; channels_last 106, 110; float16 planes 74, 69.9.
  const bool small = rows * p.kw <= 9 || (size_of(p.in.dtype) == 2 && unit > 1 && p.kw <= 16);
  c.policy = {.taps_y = int(rows),
              .taps_x = int(p.kw),
              .stride_y = int(s.stride_y),
              .stride_x = int(s.stride_x),
              .columns = columns,
              .unit = unit,
              .lead = int((unit - s.pad_x % unit) % unit),
              .inner = inner,
              .resident = small && !inner ? 4 : 3};
  c.strips = ceil_div(p.grad.w, columns);
  c.groups = inner ? ceil_div(p.grad.c, 32) : p.grad.c;
  // The grid has as many blocks as are resident. The bands leave the fewest steps to a thread. A band begins with the
  // loads of about two steps. float16 7x7 64x96x56x56, planes:
  //
  //     steps of a band    7    14    28   56
  //     us                75  73.5  69.9   82
  //
  int64_t most = 0;
  for (int64_t round = 0; round < rounds; ++round)
    most = std::max<int64_t>(most, StepRange::of(int(s.pad_y - round * rows), c.policy.stride_y, int(p.in.h),
                                                 int(p.grad.h), c.policy.ring_rows())
                                       .with_all_rows(c.policy.ring_rows())
                                       .steps());
  const int64_t at_once = inner ? kThreads / 32 : kThreads, columns_of_items = p.grad.n * c.strips;
  const int64_t resident = int64_t(arch.multiprocessors) * c.policy.resident;
  const int64_t most_splits = std::max<int64_t>(1, resident / (c.groups * rounds));
  int64_t least = INT64_MAX;
  for (int64_t bands = 1; bands <= 16 && bands <= most; ++bands) {
    const int64_t band = ceil_div(most, bands), items = columns_of_items * ceil_div(most, band);
    const int64_t splits = std::min(most_splits, ceil_div(items, at_once));
    const int64_t cost = ceil_div(items, splits * at_once) * (band + 2);
    if (cost >= least) continue;
    least = cost, c.bands = ceil_div(most, band), c.band = band, c.splits = splits;
  }
  return c;
}

inline int64_t numbers_of(const WeightGradient& p) { return p.grad.c * (p.kh * p.kw + 1); }

inline const char* streaming_refusal(const WeightGradient& p, const Arch& arch) {
  const Placement& s = p.place;
  const Dtype d = p.in.dtype;
  if (d != Dtype::f32 && d != Dtype::f16 && d != Dtype::bf16) return "no float32, float16 or bfloat16";
  if (s.dilation_y != 1 || s.dilation_x != 1) return "a dilation";
  if (!below(5, {s.stride_y, s.stride_x})) return "a stride beyond 4";
  if (p.kw > 32) return "more than 32 taps a row";
  if (s.pad_y >= p.kh || s.pad_x >= p.kw) return "padding beyond the window";
  const bool inner = channels_innermost(p.in);
  if (inner != channels_innermost(p.grad)) return "an image and a gradient of two layouts";
  if (!inner && (p.in.stride_w != 1 || p.grad.stride_w != 1) && p.in.w > 1) return "pixels of a row are not contiguous";
  const auto extent = [](const Image& x) {
    return (x.n - 1) * x.stride_n + (x.c - 1) * x.stride_c + (x.h - 1) * x.stride_h + (x.w - 1) * x.stride_w;
  };
  if (!below(int64_t(1) << 31, {extent(p.in), extent(p.grad), numbers_of(p)})) return "2^31 elements";
  const GradientConfig c = streaming_config(p, arch);
  if (!below(1 << 16, {c.groups, c.rounds})) return "2^16 channels";
  return c.strips * c.bands * p.grad.n < int64_t(1) << 31 ? nullptr : "2^31 strips";
}

inline void configure_streaming(const WeightGradient& p, const Arch& arch, Plan& plan) {
  const GradientConfig c = streaming_config(p, arch);
  const StreamingPolicy& s = c.policy;
  plan.why = s.inner ? "lanes are channels" : "lanes are strips of planes";
  plan.tile_w = s.columns;
  plan.tile_h = int(c.band);
  plan.threads = kThreads;
  plan.blocks = c.splits * c.groups * c.rounds;
  plan.launches = 2;
  plan.scratch_bytes = c.splits * numbers_of(p) * 4;
  plan.kernels = {
      kernel_of("kernels/weight_gradient/streaming/kernel.cuh", "weight_gradient::weight_gradient_streaming",
                {p.in.dtype,
                 {"weight_gradient::StreamingPolicy",
                  {s.taps_y, s.taps_x, s.stride_y, s.stride_x, s.columns, s.unit, s.lead, s.inner, s.resident}}}),
      kernel_of("kernels/weight_gradient/streaming/kernel_finish.cuh", "weight_gradient::weight_gradient_finish",
                {p.in.dtype})};
  plan.config = c;
}

inline SumsArgs sums_args(const WeightGradient& p, const GradientConfig& c, float* sums) {
  const Image &in = p.in, &grad = p.grad;
  return {.in = in.data,
          .grad = grad.data,
          .sums = sums,
          .in_n = unsigned(in.stride_n),
          .in_c = unsigned(in.stride_c),
          .in_h = unsigned(in.stride_h),
          .in_w = unsigned(in.stride_w),
          .grad_n = unsigned(grad.stride_n),
          .grad_c = unsigned(grad.stride_c),
          .grad_h = unsigned(grad.stride_h),
          .grad_w = unsigned(grad.stride_w),
          .in_rows = int(in.h),
          .in_columns = int(in.w),
          .grad_rows = int(grad.h),
          .grad_columns = int(grad.w),
          .pad_y = int(p.place.pad_y),
          .pad_x = int(p.place.pad_x),
          .channels = int(grad.c),
          .taps_y = int(p.kh),
          .band = int(c.band),
          .items = unsigned(c.strips * c.bands * grad.n),
          .strips = FastDivisor::of(unsigned(c.strips)),
          .bands = FastDivisor::of(unsigned(c.bands)),
          .multiplier = FastDivisor::of(unsigned(p.multiplier()))};
}

inline FinishArgs finish_args(const WeightGradient& p, const GradientConfig& c, const float* sums) {
  const int64_t numbers = p.kh * p.kw + 1;
  return {.sums = sums,
          .weight = p.weight,
          .bias = p.bias,
          .blocks = int(c.splits),
          .taps = int(numbers - 1),
          .count = unsigned(numbers_of(p)),
          .each = FastDivisor::of(unsigned(numbers))};
}

}  // namespace torch_conv::weight_gradient
