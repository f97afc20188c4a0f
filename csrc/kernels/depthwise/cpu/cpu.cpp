// Depthwise convolutions on the CPU: the list of variants, and the dispatch to their loops.
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "core/activation.h"
#include "core/cpu/strips.h"
#include "core/parallel.h"
#include "kernels/depthwise/cpu/tuning.h"
#include "kernels/plan_cpu.h"

#define TC_CPU_BODY "kernels/depthwise/cpu/body.h"
#include "core/cpu/each_isa.h"

#if TC_X86_LEVELS
namespace torch_conv::cpu_v4_bf16 {  // kernels/depthwise/cpu/pairs.cpp
void pair_units(const Depthwise& p, const Plan& plan, Range units);
}  // namespace torch_conv::cpu_v4_bf16
#endif

namespace torch_conv::depthwise {

namespace {

const char* never(const Depthwise&) { return nullptr; }

// The first variant that serves a problem is chosen. The last serves every problem of the kernel family.
struct Variant {
  const char* name;
  const char* (*refusal)(const Depthwise&);
  const char* (*is_slower)(const Depthwise&);
  void (*configure)(const Depthwise&, Plan&);
  Loops loops;
};
constexpr Variant kVariants[] = {
    {"channel_pairs", channel_pairs_refusal, channel_pairs_is_slower, plan_channels, Loops::pairs},
    {"channels", channels_refusal, channels_is_slower, plan_channels, Loops::each_isa},
    {"plane_pairs", plane_pairs_refusal, strips_is_slower, plan_planes, Loops::pairs},
    {"block_pairs", block_pairs_refusal, block_pairs_is_slower, plan_blocks<32>, Loops::pairs},
    {"strips", strips_refusal, strips_is_slower, plan_planes, Loops::strips},
    {"blocks", blocks_refusal, blocks_is_slower, plan_blocks<16>, Loops::each_isa},
    {"planes", never, planes_is_slower, plan_planes, Loops::each_isa},
};

}  // namespace

static void run(const Depthwise& p, const Plan& plan, const Site&) {
  auto units = p.in.dtype == Dtype::f64 ? TC_BEST_ISA(depthwise_units<double>) : TC_BEST_ISA(depthwise_units<float>);
#if TC_X86_LEVELS
  const Loops loops = std::any_cast<Loops>(plan.config);
  if (loops == Loops::strips) units = cpu_v4::float_strip_units;
  if (loops == Loops::pairs) units = cpu_v4_bf16::pair_units;
#endif
  parallel_for(0, plan.blocks, unit_grain(plan), [&](int64_t begin, int64_t end) { units(p, plan, {begin, end}); });
}

Plan plan_cpu(const Depthwise& p, const char* pinned) {
  Plan plan{.algorithm = "depthwise", .launch = run};
  if (const char* why = p.sums == Sums::mma ? "no tensor cores" : footprint_refusal(p)) {
    plan.why = why;
    return plan;
  }
  plan.bytes = bytes_of(p.in) + bytes_of(p.out);
  plan.flops = 2.0 * double(p.kh * p.kw) * elements_of(p.out);
  for (const Variant& variant : kVariants) {
    if (*pinned && std::strcmp(pinned, variant.name) != 0) continue;
    const char* why = variant.refusal(p);
    if (!why && !*pinned) why = variant.is_slower(p);
    if (!why) {
      plan.variant = variant.name, plan.config = variant.loops;
      variant.configure(p, plan);
      break;
    }
    plan.refused.push_back({variant.name, why}), plan.why = why;
  }
  return plan;
}

}  // namespace torch_conv::depthwise
