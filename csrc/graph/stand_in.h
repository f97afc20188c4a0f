// Calls whose kernels are not compiled yet. Such a call runs on a stand-in: a plan of the same problem with the same
// bits, whose kernels are built ahead or in the cache. Meanwhile threads compile the kernels of its own plan.
//
//     decide      plans once, as if every kernel were there; all decisions follow from this plan
//     launch      plans again over the kernels that are ready, for this launch alone
//     replay      a guard accepts the recorded stand-in until the kernels are compiled; then the call is planned anew
#pragma once

#include <algorithm>
#include <memory>

#include "graph/call.h"
#include "graph/launch_graph.h"
#include "runtime/compiler.h"
#include "runtime/store.h"

namespace torch_conv {

inline bool all_ready(const Plan& plan, const Arch& arch) {
  return std::all_of(plan.kernels.begin(), plan.kernels.end(),
                     [&](const Kernel& kernel) { return cuda::is_ready(kernel, arch); });
}

// Estimated seconds of a stand-in, from the slowest ones on one NVIDIA H200: 2e12 flops a second with 132
// multiprocessors (direct2d GENERAL, float32: 4e12).
inline double seconds_of_stand_in(const Plan& plan, const Arch& arch) {
  const double flops_per_second = 2e12 * arch.multiprocessors / 132;
  return std::max(plan.flops / flops_per_second, plan.launches * plan.bytes / arch.bytes_per_second);
}

// A compilation takes about so long. A stand-in that takes longer is not worth its launch.
constexpr double kSecondsOfCompilation = 0.5;

// Another plan with the same bits over kernels that are ready, or null.
template <typename Problem>
std::shared_ptr<const Plan> stand_in(const Target& target, const Problem& p, const Plan& wanted,
                                     Plan (*plan_cuda)(const Problem&, const Arch&, const char* pinned)) {
  Arch arch = target.arch();
  arch.offers = cuda::is_ready, arch.bits = wanted.bits;
  Plan plan = plan_cuda(p, arch, "");
  if (!plan.variant) arch.any_speed = true, plan = plan_cuda(p, arch, "");
  const bool serves = plan.variant && seconds_of_stand_in(plan, arch) <= kSecondsOfCompilation;
  return serves ? std::make_shared<const Plan>(std::move(plan)) : nullptr;
}

inline bool compiles_in_background() { return cuda::compile_mode() == cuda::CompileMode::background; }

// Whether a call may launch other kernels than its plan's. A capture keeps its kernels, so it waits for its own.
// Launches for shards belong together, so calls on shards wait, too.
inline bool takes_stand_ins(const Call& call, const Target& target) {
  return target.cuda() && !call.on_shards && !call.waits && compiles_in_background() &&
         !(target.input().is_cuda() && cuda::capturing(target.input().get_device_index()));
}

// Starts the compilation of a plan's kernels. The call's graph, which launches others, is replayed until they are
// ready. False: they will not be. Launches that replace a fused kernel meanwhile start no compilation of their own.
inline bool compile_meanwhile(Call& call, const Target& target, const std::shared_ptr<const Plan>& wanted) {
  if (call.replaces_fused) return true;
  bool compiles = true;
  for (const Kernel& kernel : wanted->kernels) compiles &= cuda::compile_in_background(kernel, target.arch());
  if (!call.graph) return compiles;
  call.graph->guard([wanted, arch = target.arch(), device = target.input().get_device_index()](const auto&) {
    return compiles_in_background() && !all_ready(*wanted, arch) && !cuda::capturing(device);
  });
  return compiles;
}

}  // namespace torch_conv
