// WARPS: rows of planes in registers; lanes exchange the columns of their neighbours by shuffles.
#pragma once

#include "kernels/depthwise/config.h"
#include "kernels/depthwise/warps/params.h"

namespace torch_conv::depthwise {

void launch_warps(const Depthwise& p, const Plan& plan, const Site& site);

// A plane's strips.
struct WarpsConfig {
  WarpsPolicy shape;
  int vectors, strips_x, strips_y, each;
};

inline WarpsConfig warps_config(const Depthwise& p) {
  // Rows of a strip, float32, stride 2, us on one NVIDIA H200:
  //
  //                          2     3     4     7
  //     3x3 64x96x112x112    88.7  89.0  89.7  89.9
  //     5x5 64x192x28x28     15.1  14.5  16.2  15.3
  //
  WarpsConfig c{
      .shape = {.k = int(p.kh), .stride = int(p.place.stride_x), .vector = 16 / size_of(p.in.dtype), .rows = 3}};
  WarpsPolicy& w = c.shape;
  c.vectors = int(p.in.w / w.vector);
  c.strips_x = c.vectors <= 32 ? 1 : int(ceil_div(c.vectors, 30));
  c.each = int(ceil_div(c.vectors, c.strips_x));
  w.halo = c.strips_x > 1;
  const int lanes = c.each + (w.halo ? 2 : 0);
  w.lanes = lanes <= 8 ? 8 : lanes <= 16 ? 16 : 32;
  c.strips_y = int(ceil_div(p.out.h, w.rows));
  return c;
}

inline const char* warps_refusal(const Depthwise& p, const Arch&) {
  const Placement& s = p.place;
  const int64_t k = p.kh, stride = s.stride_x;
  if (p.in.dtype == Dtype::f64) return "no float32, float16 or bfloat16";
  if (!aligned_rows(p.in) || p.out.stride_w != 1) return "rows that are no vectors of 16 bytes";
  const bool square = p.kw == k && (k == 3 || k == 5 || k == 7) && s.dilation_y == 1 && s.dilation_x == 1;
  if (!square) return "no square window of 3, 5 or 7 taps without dilation";
  if (s.stride_y != stride || stride > 2) return "a stride other than 1 and 2";
  if (s.pad_x != k / 2) return "a padding of rows other than half the window";
  if (p.out.w != p.in.w / stride) return "rows of outputs that are no vectors";
  if (!rows_start_on(p.out, 16 / stride)) return "rows of outputs that do not start on vectors";
  if (!below(1 << 24, {p.in.h, p.in.w, p.out.h, s.pad_y})) return "2^24 rows or columns";
  const WarpsConfig c = warps_config(p);
  return p.out.n * p.out.c * c.strips_x * c.strips_y < int64_t(1) << 31 ? nullptr : "2^31 strips";
}

inline void configure_warps(const Depthwise& p, const Arch&, Plan& plan) {
  const WarpsConfig c = warps_config(p);
  const WarpsPolicy& w = c.shape;
  plan.why = "rows in registers";
  plan.tile_w = c.each * w.outputs();
  plan.tile_h = w.rows;
  plan.tile_d = 1;
  plan.threads = 128;
  plan.blocks = ceil_div(p.out.n * p.out.c * c.strips_x * c.strips_y * w.lanes, 128);
  const TemplateArgument shape("depthwise::WarpsPolicy", {w.k, w.stride, w.vector, w.lanes, w.rows, w.halo});
  plan.kernels = {kernel_of("kernels/depthwise/warps/kernel.cuh", "depthwise::depthwise_warps",
                            {p.in.dtype, p.weights, shape, argument_of(p.activation)})};
  plan.config = c;
}

}  // namespace torch_conv::depthwise
