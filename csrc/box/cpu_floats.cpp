// Boxes over floats on the CPU: sums of columns in groups of rows, then of rows by doubling, in the order of
// box/order.h.
#include "box/cpu_floats.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "box/order.h"
#include "box/reads.h"
#include "core/cpu_strips.h"
#include "core/parallel.h"

#define TC_CPU_BODY "box/cpu_floats_body.h"
#include "core/cpu_each_isa.h"

namespace torch_conv::box {

Plan plan_floats(const Box& p) {
  Plan plan{.algorithm = "box", .variant = "groups", .why = "sums that groups of rows share, then by doubling"};
  const int64_t pixel = interleaved_channels(p.in, p.out);
  const int64_t rows = 12 + (one_chain(p.kh) ? 0 : std::min<int64_t>(blocks_of(p.kh), 1024) / 4);
  plan.tile_w = tile_columns(p.out.w, pixel, rows, p.kw, acc_bytes(p.in.dtype));
  // A strip starts with a whole window of rows; as many again keep that start small.
  plan.tile_h = int(round_up(std::min(p.out.h, std::max<int64_t>(64, 2 * p.kh)), kGroup));
  plan.blocks = p.in.n * (pixel > 1 ? 1 : p.in.c) * ceil_div(place_in_group(p.first_row) + p.out.h, plan.tile_h);
  plan.bytes = bytes_of(p.in) + bytes_of(p.out);
  plan.flops =
      (double(std::min<int64_t>(p.kh, 6)) + double(p.kh) / 64 + 2 * std::log2(double(p.kw))) * elements_of(p.out);
  return plan;
}

void run_floats(const Box& p, const Plan& plan) {
  const auto run = p.in.dtype == Dtype::f64 ? TC_BEST_ISA(group_units<double>) : TC_BEST_ISA(group_units<float>);
  parallel_for(0, plan.blocks, unit_grain(plan), [&](int64_t begin, int64_t end) { run(p, plan, {begin, end}); });
}

}  // namespace torch_conv::box
