// Box sums on the CPU. Over integers: running column sums, then running row sums; any window at the same cost.
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "core/cpu/strips.h"
#include "core/parallel.h"
#include "kernels/box/cpu/floats.h"
#include "kernels/box/cpu/window.h"
#include "kernels/box/mean.h"
#include "kernels/box/plan.h"
#include "kernels/plan_cpu.h"

#define TC_CPU_BODY "kernels/box/cpu/body.h"
#include "core/cpu/each_isa.h"

namespace torch_conv::box {

static void run(const Box& p, const Plan& plan, const Site&) {
  if (!is_integer(p.in.dtype)) return run_floats(p, plan);
  // Sums of bytes of small windows fit into 16 bits. Every output adds up to 16 of them afresh along the row. 2048^2,
  // one thread, Zen 4, against sums of 32 bits: 3x3 3.1 -> 0.6 ms, 15x15 2.5 -> 1.65.
  const bool narrow = p.in.dtype == Dtype::u8 && p.kh * p.kw < 256 && p.kw <= 16 &&
                      shorten(p.kw, p.place.pad_x, p.in.w, p.out.w, p.place.border).extra_counts.empty();
  const bool to_float64 = p.out.dtype == Dtype::f64;
  const bool wide = p.kh * p.kw > most_pixels_in_32_bits(p.in.dtype) / (to_float64 ? 2 : 1);
  using Units = void (*)(const Box&, const Plan&, Range);
  const auto units_of = [&]<typename Real>(Real) {
    return with_type(p.in.dtype, [&](auto t) -> Units {
      using T = decltype(t);
      if constexpr (std::is_integral_v<T>) {
        if constexpr (sizeof(T) == 1)
          if (narrow) return TC_BEST_ISA(box_units<T, uint16_t, Real>);
        return wide ? TC_BEST_ISA(box_units<T, uint64_t, double>) : TC_BEST_ISA(box_units<T, uint32_t, Real>);
      }
      __builtin_unreachable();
    });
  };
  const Units units = to_float64 ? units_of(double{}) : units_of(float{});
  parallel_for(0, plan.blocks, unit_grain(plan), [&](int64_t begin, int64_t end) { units(p, plan, {begin, end}); });
}

Plan plan_cpu(const Box& p, const char* variant) {
  Plan plan = is_integer(p.in.dtype)
                  ? Plan{.algorithm = "box", .variant = "running", .why = "running sums, any window at the same cost"}
                  : plan_floats(p);
  plan.launch = run;
  if (*variant && std::strcmp(variant, plan.variant) != 0) {
    plan.variant = nullptr;
    return plan;
  }
  if (!is_integer(p.in.dtype)) return plan;
  // A strip starts with a whole window of rows; as many again keep that start small.
  plan.tile_w = int(p.out.w);
  plan.tile_h = int(std::min(p.out.h, std::max<int64_t>(64, 2 * p.kh)));
  plan.blocks = p.in.n * (interleaved_channels(p.in, p.out) > 1 ? 1 : p.in.c) * ceil_div(p.out.h, plan.tile_h);
  plan.bytes = bytes_of(p.in) + bytes_of(p.out);
  plan.flops = 5 * elements_of(p.out);
  return plan;
}

}  // namespace torch_conv::box
