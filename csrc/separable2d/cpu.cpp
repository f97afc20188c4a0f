// Separable correlation on the CPU: a ring of row sums, and the column pass over it.
#include <cmath>
#include <cstring>
#include <vector>

#include "core/cpu_strips.h"
#include "core/parallel.h"
#include "core/rooms.h"

namespace torch_conv::separable2d {

// Interleaved rows take one window for all channels.
static int64_t pixel_of_row(const Separable& p) {
  return p.taps_x.stride_c == 0 && p.taps_y.stride_c == 0 ? interleaved_channels(p.in, p.out) : 1;
}

}  // namespace torch_conv::separable2d

#define TC_CPU_BODY "separable2d/cpu_body.h"
#include "core/cpu_each_isa.h"

namespace torch_conv::separable2d {

Plan plan_cpu(const Separable& p, const char* variant) {
  Plan plan{.algorithm = "separable", .variant = "rows", .why = "row sums in a ring, column pass over them"};
  if (p.sums == Sums::products) {
    plan.variant = nullptr, plan.why = "the CPU makes chains of multiply-adds";
    return plan;
  }
  if (*variant && std::strcmp(variant, plan.variant) != 0) {
    plan.variant = nullptr;
    return plan;
  }
  const int64_t pixel = pixel_of_row(p);
  plan.tile_w = tile_columns(p.out.w, pixel, p.kh + 3, p.kw, size_of(p.in.dtype) == 8 ? 8 : 4);
  plan.tile_h = unit_rows(p.out.h, p.kh);
  plan.blocks = p.in.n * (pixel > 1 ? 1 : p.in.c) * ((p.out.h + plan.tile_h - 1) / plan.tile_h);
  plan.bytes = bytes_of(p.in) + bytes_of(p.out);
  plan.flops = 2.0 * (double(p.kh) + double(p.kw) * double(p.place.stride_y)) * elements_of(p.out);
  return plan;
}

void run_cpu(const Separable& p, const Plan& plan) {
  // Bytes stay bytes up to the row pass's multiply-adds: rows of floats cost more than conversions tap by tap (2048^2,
  // one thread, Zen 4, 3x3 1.55 -> 1.15 ms, 5x5 1.95 -> 1.55, 31x31 the same; 2048 x 2048 x 3 by 3x3 5.4 -> 4.3 ms).
  const bool bytes = p.in.dtype == Dtype::u8 && holds(Dtype::u8, p.place.value);
  const auto run = p.in.dtype == Dtype::f64 ? TC_BEST_ISA(separable_units<double, double>)
                   : bytes                  ? TC_BEST_ISA(separable_units<float, uint8_t>)
                                            : TC_BEST_ISA(separable_units<float, float>);
  parallel_for(0, plan.blocks, unit_grain(plan), [&](int64_t begin, int64_t end) { run(p, plan, {begin, end}); });
}

}  // namespace torch_conv::separable2d
