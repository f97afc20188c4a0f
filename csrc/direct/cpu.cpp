// Direct correlation on the CPU: rows as contiguous vector loops, a register tile of several output rows.
#include <cmath>
#include <cstring>
#include <vector>

#include "core/cpu_strips.h"
#include "core/parallel.h"
#include "core/rooms.h"

namespace torch_conv::direct {

// Interleaved rows need one input channel per output channel.
static int64_t pixel_of_row(const Direct& p) { return p.groups == p.in.c ? interleaved_channels(p.in, p.out) : 1; }

}  // namespace torch_conv::direct

#define TC_CPU_BODY "direct/cpu_body.h"
#include "core/cpu_each_isa.h"

namespace torch_conv::direct {

Plan plan_cpu(const Direct& p, const char* variant) {
  Plan plan{.algorithm = "direct", .variant = "rows", .why = "rows as vector loops, one chain per output"};
  if (p.sums == Sums::products) {
    plan.variant = nullptr, plan.why = "the CPU makes chains of multiply-adds";
    return plan;
  }
  if (*variant && std::strcmp(variant, plan.variant) != 0) {
    plan.variant = nullptr;
    return plan;
  }
  const int64_t pixel = pixel_of_row(p), inputs = p.in.c / p.groups;
  plan.tile_h = unit_rows(p.out.h, p.kh);
  if (p.out.d > 1 || p.kd > 1) plan.tile_d = p.kd > 1 ? unit_rows(p.out.d, p.kd) : 1;
  const int64_t rows = p.kd == 1 ? p.kh + 3 : std::min(p.kd, p.in.d) * std::min(plan.tile_h + p.kh, p.in.h);
  plan.tile_w = tile_columns(p.out.w, pixel, inputs * rows, p.kw, size_of(p.in.dtype) == 8 ? 8 : 4);
  plan.blocks = p.in.n * (pixel > 1 ? 1 : p.groups) * ceil_div(p.out.h, plan.tile_h) *
                ceil_div(p.out.d, std::max(1, plan.tile_d));
  plan.bytes = bytes_of(p.in) + bytes_of(p.out);
  plan.flops = 2.0 * double(p.kd) * double(p.kh) * double(p.kw) * double(inputs) * elements_of(p.out);
  return plan;
}

void run_cpu(const Direct& p, const Plan& plan) {
  const auto run = p.in.dtype == Dtype::f64 ? TC_BEST_ISA(direct_units<double>) : TC_BEST_ISA(direct_units<float>);
  parallel_for(0, plan.blocks, unit_grain(plan), [&](int64_t begin, int64_t end) { run(p, plan, {begin, end}); });
}

}  // namespace torch_conv::direct
