// Causal convolutions on the CPU.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/activation.h"
#include "core/cpu/strips.h"
#include "core/parallel.h"
#include "kernels/causal/config.h"
#include "kernels/plan_cpu.h"

#define TC_CPU_BODY "kernels/causal/cpu/body.h"
#include "core/cpu/each_isa.h"

namespace torch_conv::causal {

namespace {

// Elements of a block in the accumulation type stay in the first-level cache.
constexpr int kPiece = 1024, kAcross = 256, kAlong = 32;

bool by_channels(const CausalConv& p) { return p.x.stride_c == 1 && p.out.stride_c == 1 && p.c > 1; }

void write_after(const CausalConv& p) {
  const int64_t size = size_of(p.dtype);
  const auto at = [&](const Signal& s, int64_t n, int64_t c, int64_t t) {
    return static_cast<char*>(s.data) + (n * s.stride_n + c * s.stride_c + t * s.stride_l) * size;
  };
  for (int64_t n = 0; n < p.n; ++n)
    for (int64_t c = 0; c < p.c; ++c)
      for (int64_t j = 0; j < p.k - 1; ++j) {
        const int64_t t = p.l - (p.k - 1) + j;
        char* to = at(p.after, n, c, j);
        if (t >= 0) std::memcpy(to, at(p.x, n, c, t), size);
        else if (p.before.data) std::memcpy(to, at(p.before, n, c, t + p.k - 1), size);
        else std::memset(to, 0, size);
      }
}

void run(const CausalConv& p, const Plan& plan, const Site&) {
  const bool doubles = p.dtype == Dtype::f64, channels = by_channels(p);
  const auto units = channels ? (doubles ? TC_BEST_ISA(along_channels<double>) : TC_BEST_ISA(along_channels<float>))
                              : (doubles ? TC_BEST_ISA(along_length<double>) : TC_BEST_ISA(along_length<float>));
  if (plan.blocks > 0)
    parallel_for(0, plan.blocks, unit_grain(plan), [&](int64_t begin, int64_t end) { units(p, plan, {begin, end}); });
  if (p.after.data) write_after(p);
}

void run(const CausalUpdate& p, const Plan& plan, const Site&) {
  const auto units = p.dtype == Dtype::f64 ? TC_BEST_ISA(update_channels<double>) : TC_BEST_ISA(update_channels<float>);
  parallel_for(0, plan.blocks, unit_grain(plan), [&](int64_t begin, int64_t end) { units(p, plan, {begin, end}); });
}

template <typename Problem>
Plan plan_of(const Problem& p, const char* variant, const char* name, const char* why) {
  Plan plan = base_plan(p);
  plan.variant = *variant && std::strcmp(variant, name) != 0 ? nullptr : name;
  plan.why = why;
  plan.launch = LaunchFunction<Problem>(run);
  return plan;
}

}  // namespace

Plan plan_cpu(const CausalConv& p, const char* variant) {
  const bool channels = by_channels(p);
  Plan plan = plan_of(p, variant, channels ? "channels" : "rows", channels ? "channels are interleaved" : "row by row");
  plan.tile_w = int(channels ? std::min<int64_t>(p.c, kAcross) : std::clamp<int64_t>(p.l, 1, kPiece));
  plan.tile_h = int(channels ? std::clamp<int64_t>(p.l, 1, kAlong) : 1);
  plan.blocks =
      p.n * (channels ? ceil_div(p.c, plan.tile_w) * ceil_div(p.l, plan.tile_h) : p.c * ceil_div(p.l, plan.tile_w));
  return plan;
}

Plan plan_cpu(const CausalUpdate& p, const char* variant) {
  Plan plan = plan_of(p, variant, "update", "some channels of a sample at a time");
  plan.tile_w = int(std::min<int64_t>(p.c, kAcross));
  plan.tile_h = 1;
  plan.blocks = p.n * ceil_div(p.c, plan.tile_w);
  return plan;
}

}  // namespace torch_conv::causal
