// Direct correlation on the CPU: vector loops along rows, a register tile of several output rows.
#include <cmath>
#include <cstring>
#include <vector>

#include "core/cpu/float64.h"
#include "core/cpu/small_planes.h"
#include "core/cpu/strips.h"
#include "core/parallel.h"
#include "kernels/plan_cpu.h"

namespace torch_conv::direct {

// Interleaved channels that are filtered as one row: only with one input channel for each output channel.
static int64_t pixel_of_row(const Direct& p) { return p.groups == p.in.c ? interleaved_channels(p.in, p.out) : 1; }

// The variant `blocks`: planes that are transposed together, and the plan of the resulting image.
struct TransposedBlocks {
  int64_t together;
  Plan plan;
};

}  // namespace torch_conv::direct

#define TC_CPU_BODY "kernels/direct/cpu_body.h"
#include "core/cpu/each_isa.h"

namespace torch_conv::direct {

namespace {

void plan_rows(const Direct& p, Plan& plan) {
  plan.variant = "rows", plan.why = "rows as vector loops, one chain per output";
  const int64_t pixel = pixel_of_row(p), inputs = p.in.c / p.groups;
  // Two threads both read the rows between their strips: short against the sums, however tall the window.
  constexpr int64_t kMostRows = 64;
  plan.tile_h = unit_rows(p.out.h, p.kd == 1 ? std::min(p.kh, kMostRows) : p.kh);
  if (p.out.d > 1 || p.kd > 1) plan.tile_d = p.kd > 1 ? unit_rows(p.out.d, p.kd) : 1;
  const int64_t rows = p.kd == 1 ? p.kh + 3 : std::min(p.kd, p.in.d) * std::min(plan.tile_h + p.kh, p.in.h);
  plan.tile_w = tile_columns(p.out.w, pixel, inputs * rows, p.kw, size_of(p.in.dtype) == 8 ? 8 : 4);
  plan.blocks = p.in.n * (pixel > 1 ? 1 : p.groups) * ceil_div(p.out.h, plan.tile_h) *
                ceil_div(p.out.d, std::max(1, plan.tile_d));
  plan.bytes = bytes_of(p.in) + bytes_of(p.out);
  plan.flops = 2.0 * double(p.kd) * double(p.kh) * double(p.kw) * double(inputs) * elements_of(p.out);
}

// Planes that are transposed together: only with one window for all planes.
int64_t block_of(const Direct& p) {
  const bool filter = p.kd == 1 && p.groups == p.in.c && p.one_window() && !p.bias;
  return filter ? planes_together(p.in, p.out) : 0;
}

void plan_blocks(const Direct& p, Plan& plan) {
  const Dtype type = p.in.dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  TransposedBlocks blocks{block_of(p), plan};
  Direct q = p;
  q.in = transposed(p.in, blocks.together, type);
  q.out = transposed(p.out, blocks.together, type);
  q.groups = blocks.together;
  plan_rows(q, blocks.plan);
  plan_rows(p, plan);
  plan.variant = "blocks", plan.why = "small planes transposed, so that registers hold a pixel of many";
  plan.tile_w = plan.tile_h = 0, plan.blocks = ceil_div(p.in.n * p.in.c, blocks.together);
  plan.config = std::move(blocks);
}

template <typename A>
void run_one(const Direct& p, const Plan& plan) {
  const bool blocks = std::strcmp(plan.variant, "blocks") == 0;
  const auto run = blocks ? TC_BEST_ISA(direct_block_units<A>) : TC_BEST_ISA(direct_units<A>);
  parallel_for(0, plan.blocks, unit_grain(plan), [&](int64_t begin, int64_t end) { run(p, plan, {begin, end}); });
}

void run(const Direct& p, const Plan& plan, const Site&) {
  if (p.in.dtype == Dtype::f64) run_one<double>(p, plan);
  else run_one<float>(p, plan);
}

}  // namespace

Plan plan_cpu(const Direct& p, const char* variant) {
  Plan plan{.algorithm = "direct", .launch = run};
  if (p.sums == Sums::mma) {
    plan.why = "the CPU makes chains of multiply-adds";
    return plan;
  }
  const bool blocks = block_of(p) > 0;
  if (blocks && (!*variant || std::strcmp(variant, "blocks") == 0)) plan_blocks(p, plan);
  else if (!*variant || std::strcmp(variant, "rows") == 0) plan_rows(p, plan);
  return plan;
}

void run_in_float64(const Direct& p, const Plan& plan) { run_one<double>(p, plan); }

}  // namespace torch_conv::direct
