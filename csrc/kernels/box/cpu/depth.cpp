// The box's pass along z on the CPU. Over integers: running sums over the planes' sums, any window at the same cost.
#include <cmath>
#include <cstring>
#include <vector>

#include "core/cpu/strips.h"
#include "core/parallel.h"
#include "kernels/box/cpu/floats.h"
#include "kernels/box/cpu/window.h"
#include "kernels/box/mean.h"
#include "kernels/plan_cpu.h"

#define TC_CPU_BODY "kernels/box/cpu/depth_body.h"
#include "core/cpu/each_isa.h"

namespace torch_conv::box {

// Sums of whole numbers run along z; a border value that is not finite would never leave them.
static bool are_running(const BoxDepth& p) { return is_integer(p.source) && std::isfinite(p.outside); }

static void run(const BoxDepth& p, const Plan& plan, const Site&) {
  if (!are_running(p)) return run_depth_floats(p, plan);
  const auto units = p.sums.dtype == Dtype::f64 ? TC_BEST_ISA(depth_units<double>) : TC_BEST_ISA(depth_units<float>);
  parallel_for(0, plan.blocks, unit_grain(plan), [&](int64_t begin, int64_t end) { units(p, plan, {begin, end}); });
}

Plan plan_cpu(const BoxDepth& p, const char* variant) {
  Plan plan =
      are_running(p)
          ? Plan{.algorithm = "box", .variant = "running", .why = "running sums along z, any window at the same cost"}
          : plan_depth_floats(p);
  plan.launch = run;
  if (*variant && std::strcmp(variant, plan.variant) != 0) {
    plan.variant = nullptr;
    return plan;
  }
  if (!are_running(p)) return plan;
  // A block's running sums stay in the second-level cache; it starts with a whole window of planes, and
  // as many again keep that start small.
  constexpr int64_t kBlockElements = 4096;
  const int64_t pixel = interleaved_channels(p.sums, p.out);
  plan.tile_w = int(p.out.w);
  plan.tile_h = int(std::clamp<int64_t>(kBlockElements / (p.out.w * pixel), 1, p.out.h));
  plan.tile_d = int(std::min(p.out.d, std::max<int64_t>(64, 2 * p.kd)));
  plan.blocks = p.out.n * (pixel > 1 ? 1 : p.out.c) * ceil_div(p.out.h, plan.tile_h) * ceil_div(p.out.d, plan.tile_d);
  plan.bytes = bytes_of(p.sums) + bytes_of(p.out);
  plan.flops = 3 * elements_of(p.out);
  return plan;
}

}  // namespace torch_conv::box
