// The pointwise end of a chain that was taken apart into filters, on the CPU: images and volumes.
#include <cmath>
#include <cstring>
#include <vector>

#include "core/activation.h"
#include "core/cpu/strips.h"
#include "core/parallel.h"
#include "core/point.h"
#include "kernels/plan_cpu.h"

namespace torch_conv::fused {

// The number of images of sums.
static int count_sums(const Combine& p) { return p.point == Point::thin ? 3 : p.windows; }

// Interleaved channels in all images.
static int64_t pixel_of_row(const Combine& p) {
  int64_t pixel = p.point == Point::sharpen ? interleaved_channels(p.centre, p.out) : p.out.c;
  for (int i = 0; i < count_sums(p); ++i) pixel = std::min(pixel, interleaved_channels(p.sums[i], p.out));
  return pixel;
}

}  // namespace torch_conv::fused

#define TC_CPU_BODY "kernels/fused/combine/cpu_body.h"
#include "core/cpu/each_isa.h"

namespace torch_conv::fused {

static void run(const Combine& p, const Plan& plan, const Site&) {
  const auto units =
      p.sums[0].dtype == Dtype::f64 ? TC_BEST_ISA(combine_units<double>) : TC_BEST_ISA(combine_units<float>);
  parallel_for(0, plan.blocks, unit_grain(plan), [&](int64_t begin, int64_t end) { units(p, plan, {begin, end}); });
}

Plan plan_cpu(const Combine& p, const char* variant) {
  Plan plan{.algorithm = "combine", .variant = "rows", .why = "the pointwise end of a chain of filters"};
  plan.launch = run;
  if (p.activation != Activation::none) plan.why = "the activation of sums";
  if (p.point == Point::each) plan.why = "sums that are outputs need no step";
  if (p.point == Point::each || (*variant && std::strcmp(variant, plan.variant) != 0)) {
    plan.variant = nullptr;
    return plan;
  }
  plan.tile_w = int(p.out.w);
  plan.tile_h = std::max(1, unit_rows(p.out.h, 16));
  plan.blocks = p.out.n * (pixel_of_row(p) > 1 ? 1 : p.out.c) * p.out.d * ceil_div(p.out.h, plan.tile_h);
  plan.bytes = count_outputs(p.point, p.windows) * bytes_of(p.out);
  for (int i = 0; i < count_sums(p); ++i) plan.bytes += bytes_of(p.sums[i]);
  if (p.point == Point::sharpen) plan.bytes += bytes_of(p.centre);
  plan.flops = 2.0 * count_sums(p) * elements_of(p.out);
  return plan;
}

}  // namespace torch_conv::fused
