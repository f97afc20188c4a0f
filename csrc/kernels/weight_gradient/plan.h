// WeightGradient + Arch -> Plan: how items are dealt out to blocks. Pure.
#pragma once

#include "core/refusals.h"
#include "kernels/families.h"
#include "kernels/weight_gradient/entry_points.h"
#include "kernels/weight_gradient/params.h"

namespace torch_conv::weight_gradient {

struct Config {
  Shape shape;
  bool inner;                      // a warp's lanes are channels
  int at_once;                     // blocks of a multiprocessor
  int64_t strips, bands, band;     // of an image's columns; of its steps, and steps of one
  int64_t splits, groups, rounds;  // blocks: that share a channel's items; of channels; of rows of taps
};

// The most pixels that one load may take from every row of an image.
inline int64_t unit_of(const Image& x) {
  if (x.stride_w != 1) return 1;
  int64_t unit = 16 / size_of(x.dtype);
  while (unit > 1 && (x.w % unit != 0 || !rows_start_on(x, unit * size_of(x.dtype)))) unit /= 2;
  return unit;
}

// Rows of taps of one block, equal parts of the window. Its sums stay in registers, beside the gradient's rows and
// twice the pixels of a row, the ones at hand and the next; in half precision these come as halves of words. The bounds
// are where ptxas begins to spill more than a few words; wide loads need fewer addresses.
inline int64_t taps_at_once(const WeightGradient& p, int64_t unit) {
  const int64_t span = 3 * p.place.stride_x + p.kw;
  int64_t rows = std::max<int64_t>(1, (unit > 1 ? 62 : 56) / p.kw);
  if (size_of(p.in.dtype) == 4)
    while (rows > 1 && rows * p.kw + 2 * span + 4 * rows > (unit > 1 ? 140 : 97)) --rows;
  return ceil_div(p.kh, ceil_div(p.kh, rows));
}

inline Config config_of(const WeightGradient& p, const Arch& arch) {
  const Placement& s = p.place;
  Config c{.inner = channels_innermost(p.in)};
  const int64_t aligned = c.inner ? 1 : std::min(unit_of(p.in), unit_of(p.grad));
  const int64_t rows = taps_at_once(p, aligned), rounds = c.rounds = ceil_div(p.kh, rows);
  // Columns of a thread, us on one NVIDIA H200 with 4 and 8 of them: float32 3x3 64x96x56x56 channels_last 51.4 and
  // 48.4, 64x768x14x14 31.6 and 27.8; 5x5 64x96x56x56 76.8 and 75.2, in planes 64.1 and 52.0; but where the rows of
  // planes are not aligned, 3x3 64x768x14x14, 35.8 and 59.9. 7x7 has registers for 4: 6 spill.
  int columns = rows * p.kw <= 25 && (c.inner || aligned >= 4) ? 8 : 4;
  while (columns > 1 && columns / 2 >= p.grad.w) columns /= 2;
  const int unit = int(std::min<int64_t>(aligned, columns));
  c.shape = {
      int(rows), int(p.kw), int(s.stride_y), int(s.stride_x), columns, unit, int((unit - s.pad_x % unit) % unit)};
  // Blocks that a multiprocessor holds: of four, 7x7 spills in float32 (77 us with three, 86 with four, 64x96x56x56)
  // and where lanes are channels (106, 110); in float16 planes 69.9 with four, 74 with three.
  const bool small = rows * p.kw <= 9 || (size_of(p.in.dtype) == 2 && unit > 1 && p.kw <= 16);
  c.at_once = small && !c.inner ? 4 : 3;
  c.strips = ceil_div(p.grad.w, columns);
  c.groups = c.inner ? ceil_div(p.grad.c, 32) : p.grad.c;
  // As many blocks as run at once, and bands that leave the fewest steps to a thread; a band begins with the loads of
  // about two steps. (float16 7x7 64x96x56x56, planes: bands of 7 steps 75 us, 14 73.5, 28 69.9, 56 82.)
  int64_t most = 0;
  for (int64_t round = 0; round < rounds; ++round)
    most = std::max<int64_t>(
        most, Streamed::of(int(s.pad_y - round * rows), c.shape.step_y, int(p.in.h), int(p.grad.h), c.shape.kept())
                  .with_all_rows(c.shape.kept())
                  .steps());
  const int64_t at_once = c.inner ? kThreads / 32 : kThreads, columns_of_items = p.grad.n * c.strips;
  const int64_t room = std::max<int64_t>(1, int64_t(arch.multiprocessors) * c.at_once / (c.groups * rounds));
  int64_t least = INT64_MAX;
  for (int64_t bands = 1; bands <= 16 && bands <= most; ++bands) {
    const int64_t band = ceil_div(most, bands), items = columns_of_items * ceil_div(most, band);
    const int64_t splits = std::min(room, ceil_div(items, at_once));
    const int64_t cost = ceil_div(items, splits * at_once) * (band + 2);
    if (cost >= least) continue;
    least = cost, c.bands = ceil_div(most, band), c.band = band, c.splits = splits;
  }
  return c;
}

inline int64_t numbers_of(const WeightGradient& p) { return p.grad.c * (p.kh * p.kw + 1); }

inline const char* refusal(const WeightGradient& p, const Arch& arch) {
  const Placement& s = p.place;
  const Dtype d = p.in.dtype;
  if (d != Dtype::f32 && d != Dtype::f16 && d != Dtype::bf16) return "no float32, float16 or bfloat16";
  if (s.dilation_y != 1 || s.dilation_x != 1) return "a dilation";
  if (!below(5, {s.stride_y, s.stride_x})) return "a stride beyond 4";
  if (p.kw > 32) return "more than 32 taps a row";
  if (s.pad_y >= p.kh || s.pad_x >= p.kw) return "padding beyond the window";
  const bool inner = channels_innermost(p.in);
  if (inner != channels_innermost(p.grad)) return "an image and a gradient of two layouts";
  if (!inner && (p.in.stride_w != 1 || p.grad.stride_w != 1) && p.in.w > 1)
    return "pixels that do not lie side by side";
  const auto extent = [](const Image& x) {
    return (x.n - 1) * x.stride_n + (x.c - 1) * x.stride_c + (x.h - 1) * x.stride_h + (x.w - 1) * x.stride_w;
  };
  if (!below(int64_t(1) << 31, {extent(p.in), extent(p.grad), numbers_of(p)})) return "2^31 elements";
  const Config c = config_of(p, arch);
  if (!below(1 << 16, {c.groups, c.rounds})) return "2^16 channels";
  return c.strips * c.bands * p.grad.n < int64_t(1) << 31 ? nullptr : "2^31 strips";
}

inline void configure(const WeightGradient& p, const Arch& arch, Plan& plan) {
  const Config c = config_of(p, arch);
  const Shape& s = c.shape;
  plan.why = c.inner ? "lanes are channels" : "lanes are strips of planes";
  plan.tile_w = s.columns;
  plan.tile_h = int(c.band);
  plan.threads = kThreads;
  plan.blocks = c.splits * c.groups * c.rounds;
  plan.launches = 2;
  plan.scratch_bytes = c.splits * numbers_of(p) * 4;
  plan.kernels = {
      kernel_of("kernels/weight_gradient/kernel_streaming.cuh", "weight_gradient::weight_gradient_streaming",
                {p.in.dtype, s.taps_y, s.taps_x, s.step_y, s.step_x, s.columns, s.unit, s.lead, c.inner, c.at_once}),
      kernel_of("kernels/weight_gradient/kernel_finish.cuh", "weight_gradient::weight_gradient_finish", {p.in.dtype})};
  plan.config = c;
}

constexpr Candidate<WeightGradient> kCandidates[] = {{"streaming", refusal, nullptr, configure}};

}  // namespace torch_conv::weight_gradient
