// ROWS: windows along rows.
#pragma once

#include "kernels/depthwise/config.h"
#include "kernels/depthwise/rows/params.h"
#include "kernels/depthwise/shared/row_layout.h"

namespace torch_conv::depthwise {

constexpr int kRowsThreads = 128;
constexpr int kRowsMostSpan = 96;  // elements of the footprint of a vector

struct RowsConfig {
  int shift, vectors;
  int64_t slots;       // lanes of a row; through shared memory, warps of a row
  int shared_outputs;  // of a lane, through shared memory; or 0
  bool flat;           // the tensor as one row; then `slots` is the length of a row
};

void launch_rows(const Depthwise& p, const Plan& plan, const Site& site);

inline RowsConfig rows_config(const Depthwise& p) {
  const int64_t size = size_of(p.in.dtype), v = 16 / size, stride = p.place.stride_x;
  const auto at = [&](const Image& x) { return int64_t(reinterpret_cast<uintptr_t>(x.data) / size); };
  const auto used = [](int64_t count, int64_t stride) { return count == 1 ? 0 : stride; };
  const int64_t in_n = used(p.out.n, p.in.stride_n), in_c = used(p.in.c, p.in.stride_c);
  const int64_t out_n = used(p.out.n, p.out.stride_n), out_c = used(p.out.c, p.out.stride_c);
  const bool aligned = at(p.out) % v == 0 && out_n % v == 0 && out_c % v == 0;
  const bool unit = p.place.unit_steps_of_images();

  RowsConfig config{.vectors = 1};
  // Through shared memory and from registers, us for 64x768x1024 on one NVIDIA H200:
  //
  //     float32   k = 9 99.7, 100.3; k = 15 99.5, 119; k = 31 111, 184; k = 7 on rows of 1001 130, 133
  //     float16   k = 9 74, 56; k = 15 79, 76; k = 31 100, 130
  //
  if (unit && p.kw > (size == 4 && p.out.w > 96 ? 6 : 16)) {
    config.shared_outputs = p.out.w > 256 ? 16 : p.out.w > 128 ? 8 : 4;
    config.slots = ceil_div(p.out.w, 32 * config.shared_outputs);
    return config;
  }
  const auto shift_of = [&](int64_t outputs_at) {
    return int(((at(p.in) - stride * outputs_at - p.place.pad_x) % v + v) % v);
  };
  const bool gapless = unit && p.multiplier() == 1 && p.in.w == p.out.w &&
                       (p.out.c == 1 || (in_c == p.in.w && out_c == p.out.w)) &&
                       (p.out.n == 1 || (in_n == p.in.c * p.in.w && out_n == p.out.c * p.out.w));
  // One long row against row by row, us on one NVIDIA H200, k = 3:
  //
  //     float32   rows of 7 118, 159; of 202 153, 155; of 1001 127, 128 (k = 7: 139, 133)
  //     float16   rows of 17 92, 265; of 202 70, 61; of 50 with k = 5 86, 84
  //
  const int64_t outputs = p.out.n * p.out.c * p.out.w;
  if (gapless && !aligned && at(p.out) % v == 0 && p.out.w >= v && outputs < (int64_t(1) << 31) - 64 && p.kw <= 9 &&
      (size == 2 ? p.out.w <= 40 : p.out.w <= 32 || p.kw <= 4)) {
    config.flat = true;
    config.slots = p.out.w;
    config.shift = shift_of(0);
    return config;
  }
  // True if all rows have the same shift, the rows of the outputs of one input channel included.
  const bool agree =
      (in_n - stride * out_n) % v == 0 &&
      (p.multiplier() == 1 ? (in_c - stride * out_c) % v == 0 : in_c % v == 0 && stride * out_c % v == 0);
  const int64_t vectors = aligned ? ceil_div(p.out.w, v) : (p.out.w + v - 2) / v + 1;
  // Rows of several shifts, bfloat16 16x2048x4096, k = 4, one NVIDIA H200, us: branches 137, moves of words 143.
  config.shift = agree ? shift_of(at(p.out)) : vectors >= 64 && v * p.kw <= 48 ? kRowsBranch : kRowsFunnel;
  // Vectors of a lane, float16 64x768x1024, one NVIDIA H200, us:
  //
  //                        1     2     4
  //     k = 5             53    50    51
  //     k = 9             62    56    59
  //     rows of 50        84   104
  //
  config.vectors = vectors >= 16 && p.kw <= 16 ? 2 : 1;
  config.slots = ceil_div(vectors, config.vectors);
  return config;
}

inline const char* rows_refusal(const Depthwise& p, const Arch&) {
  if (const char* why = rows_layout_refusal(p)) return why;
  const int64_t v = 16 / size_of(p.in.dtype);
  if (p.kw > 63) return "more than 63 taps";
  if ((v - 1) * p.place.stride_x + (p.kw - 1) * p.place.dilation_x + 1 > kRowsMostSpan)
    return "long strides or dilation";
  if (const RowsConfig config = rows_config(p);
      !config.flat && p.out.n * p.out.c * config.slots * (config.shared_outputs ? 32 : 1) >= int64_t(1) << 31)
    return "2^31 vectors";
  return nullptr;
}

inline void configure_rows(const Depthwise& p, const Arch&, Plan& plan) {
  const RowsConfig config = rows_config(p);
  plan.why = "windows along rows, 16 bytes of a row a lane";
  plan.tile_w = 16 / size_of(p.in.dtype) * config.vectors;
  plan.tile_h = 1;
  plan.threads = kRowsThreads;
  plan.blocks = ceil_div(p.out.n * p.out.c * config.slots, kRowsThreads);
  if (config.flat) {
    plan.why = "windows along rows without gaps, 16 bytes a lane";
    plan.blocks = ceil_div(ceil_div(p.out.n * p.out.c * p.out.w, plan.tile_w), kRowsThreads);
    plan.kernels = {kernel_of("kernels/depthwise/rows/kernel_flat.cuh", "depthwise::depthwise_rows_flat",
                              {p.in.dtype, p.weights, int(p.kw), config.shift, argument_of(p.activation)})};
  } else if (config.shared_outputs) {
    plan.why = "windows along rows, pieces of a row through shared memory";
    plan.tile_w = 32 * config.shared_outputs;
    plan.blocks = ceil_div(p.out.n * p.out.c * config.slots, kRowsThreads / 32);
    plan.kernels = {kernel_of("kernels/depthwise/rows/shared.cuh", "depthwise::depthwise_rows_shared",
                              {p.in.dtype, p.weights, int(p.kw), config.shared_outputs, argument_of(p.activation)})};
  } else {
    const TemplateArgument shape("depthwise::RowsPolicy", {int(p.kw), int(p.place.stride_x), int(p.place.dilation_x),
                                                           config.shift, config.vectors});
    plan.kernels = {kernel_of("kernels/depthwise/rows/kernel.cuh", "depthwise::depthwise_rows",
                              {p.in.dtype, p.weights, shape, argument_of(p.activation)})};
  }
  plan.config = config;
}

}  // namespace torch_conv::depthwise
