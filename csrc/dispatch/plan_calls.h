// A problem on its way into a room: the room's doors, its plan, and what a call that only asks is told.
#pragma once

#include "dispatch/dispatch.h"
#include "runtime/store.h"

namespace torch_conv {

// Where a problem goes: a room's doors on both devices.
template <typename Problem>
struct Doors {
  Plan (*plan_cpu)(const Problem&, const char*);
  void (*run_cpu)(const Problem&, const Plan&);
  Plan (*plan_cuda)(const Problem&, const Arch&, const char*);
  void (*run_cuda)(const Problem&, const Plan&, const Site&);
};

// True means: the plan was explained, do not run it.
inline bool only_explain(Call& call, const Place& place, const Plan& plan) {
  if (call.runs()) return false;
  std::ostringstream line;
  line << plan << call.refused;
  call.refused.clear();
  if (place.cuda()) line << "; floor " << plan.bytes / place.arch().bytes_per_second * 1e6 << " us";
  if (*environment("TORCH_CONV_EXPLAIN_KERNELS"))
    for (const Kernel& kernel : plan.kernels) line << "; kernel " << kernel.name;
  call.explain(line.str());
  return true;
}

// Of a plan that could not be: the next plan that is explained says why.
inline void pass_on(Call& call, const Plan& plan) {
  if (call.runs()) return;
  for (const Refusal& r : plan.refused)
    call.refused += std::string("; not ") + plan.algorithm + "/" + r.variant + ": " + r.why;
}

// A plan with its kernels loaded.
struct Planned {
  Plan plan;
  std::vector<const LoadedKernel*> kernels;
};

inline std::vector<const LoadedKernel*> load_all(const std::vector<Kernel>& kernels, const Arch& arch) {
  std::vector<const LoadedKernel*> loaded;
  for (const Kernel& kernel : kernels) loaded.push_back(&cuda::load(kernel, arch));
  return loaded;
}

// The plan of a problem, on CUDA with its kernels loaded if the call runs or prepares.
template <typename Problem>
std::shared_ptr<const Planned> plan_of(const Call& call, const Place& place, const Problem& p,
                                       const Doors<Problem>& doors, const char* pinned) {
  if (!place.cuda()) return std::make_shared<Planned>(Planned{doors.plan_cpu(p, pinned), {}});
  // The call may bring a large window to the device. No bytes: this loads what brings it.
  if (call.prepares()) cuda::upload(nullptr, nullptr, 0, place.arch(), place.stream());
  auto planned = std::make_shared<Planned>(Planned{doors.plan_cuda(p, place.arch(), pinned), {}});
  if (!planned->plan.variant) return planned;
  if (call.loads()) planned->kernels = load_all(planned->plan.kernels, place.arch());
  return planned;
}

// Why a plan has no variant: the sentence that refuses the call. `wanted`: the algorithm that the caller named, if only
// that will do.
inline void check_planned(const Call& call, const Plan& plan, const char* pinned, const char* wanted = "") {
  check(plan.variant != nullptr || *pinned == 0, call.op, "variant '", pinned, "' cannot serve this call",
        plan.refused.empty() ? "" : ": ", plan.refused.empty() ? "" : plan.refused.back().why);
  check(plan.variant != nullptr || *wanted == 0, call.op, "algorithm '", wanted,
        "' cannot serve this call: ", plan.why);
  check(plan.variant != nullptr, call.op, "no kernel serves this call: ", plan.why);
}

}  // namespace torch_conv
