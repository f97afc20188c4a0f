// Chains of separable windows on the CPU: one read, one write, and rings of rows between the stages.
#include <cmath>
#include <cstring>
#include <vector>

#include "core/cpu/strips.h"
#include "core/parallel.h"
#include "core/point.h"
#include "kernels/plan_cpu.h"

namespace torch_conv::fused {

// Interleaved rows take one window for all channels.
static int64_t pixel_of_row(const Fused& p) {
  for (int s = 0; s < p.count; ++s)
    for (int i = 0; i < p.stages[s].windows; ++i)
      if (p.stages[s].taps_x[i].stride_c != 0 || p.stages[s].taps_y[i].stride_c != 0) return 1;
  return interleaved_channels(p.in, p.out);
}

}  // namespace torch_conv::fused

#define TC_CPU_BODY "kernels/fused/cpu/body.h"
#include "core/cpu/each_isa.h"

namespace torch_conv::fused {

static void run(const Fused& p, const Plan& plan, const Site&) {
  const auto units = p.in.dtype == Dtype::f64 ? TC_BEST_ISA(fused_units<double>) : TC_BEST_ISA(fused_units<float>);
  parallel_for(0, plan.blocks, unit_grain(plan), [&](int64_t begin, int64_t end) { units(p, plan, {begin, end}); });
}

Plan plan_cpu(const Fused& p, const char* variant) {
  Plan plan{.algorithm = "fused", .variant = "rows", .why = "one read, one write, rings of rows between the stages"};
  plan.launch = run;
  if (p.in.d != 1 || (*variant && std::strcmp(variant, plan.variant) != 0)) {
    plan.variant = nullptr;
    return plan;
  }
  const int64_t pixel = pixel_of_row(p);
  int64_t rows = 0, window_h = 1, window_w = 1;  // rows of all rings; the window of the whole chain
  double flops = 0;                              // of a pixel
  for (int s = 0; s < p.count; ++s) {
    const Stage& stage = p.stages[s];
    rows += std::max(stage.windows, 1) * std::min(stage.kh + 3, p.in.h) + stage.outputs();
    window_h += stage.kh - 1, window_w += stage.kw - 1;
    // An output of the last stage takes a column of `stride` row sums, and a block of stride x stride before that.
    const double columns = s == p.count - 1 ? 1 : double(p.stride) * double(p.stride);
    flops +=
        2.0 * stage.windows * (double(stage.kh) * columns + double(stage.kw) * std::max(columns, double(p.stride)));
  }
  // Whole rows as long as the rings take a megabyte, twice the limit of tile_columns. Structure tensor with 5 taps
  // of 4096^2 float32, one thread of a Zen 4: 47.7 ms in whole rows (690 KB of rings), 55.4 and 60.6 in two and four
  // tiles.
  plan.tile_w = tile_columns(p.out.w, pixel, ceil_div(rows, 2), window_w, size_of(p.in.dtype) == 8 ? 8 : 4);
  plan.tile_h = std::max(1, unit_rows(p.out.h, window_h));
  plan.blocks = p.in.n * (pixel > 1 ? 1 : p.in.c) * ceil_div(p.out.h, plan.tile_h);
  plan.bytes = bytes_of(p.in) + p.stages[p.count - 1].outputs() * bytes_of(p.out);
  plan.flops = flops * elements_of(p.out);
  return plan;
}

}  // namespace torch_conv::fused
