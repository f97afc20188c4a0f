// A problem, the kernel family that serves it, and the plan: decided once, then explained, or launched and recorded in
// the call's graph.
#pragma once

#include <memory>

#include "core/plan.h"
#include "graph/allocate.h"
#include "graph/call.h"
#include "graph/launch_graph.h"
#include "graph/stand_in.h"
#include "runtime/launch.h"

namespace torch_conv {

// A kernel family's entry points on both devices. `plan_cpu` is null for families that have CUDA kernels alone.
template <typename Problem>
struct EntryPoints {
  Plan (*plan_cpu)(const Problem&, const char* pinned);
  Plan (*plan_cuda)(const Problem&, const Arch&, const char* pinned);
};

template <typename Problem>
struct Decision {
  Problem problem;
  std::shared_ptr<const Plan> plan;  // without a variant where the family does not serve the problem
  const char* pinned = "";           // the only variant that may serve, or "" for any
  Plan (*plan_cuda)(const Problem&, const Arch&, const char* pinned) = nullptr;

  bool serves() const { return plan->variant != nullptr; }
};

template <typename Problem>
Decision<Problem> decide(const Target& target, const Problem& p, const EntryPoints<Problem>& entry_points,
                         const char* pinned) {
  Plan plan = target.cuda() ? entry_points.plan_cuda(p, target.arch(), pinned) : entry_points.plan_cpu(p, pinned);
  return {p, std::make_shared<const Plan>(std::move(plan)), pinned, entry_points.plan_cuda};
}

// The kernels of a plan, loaded.
using Kernels = std::vector<const LoadedKernel*>;
inline Kernels load_all(const std::vector<Kernel>& kernels, const Arch& arch) {
  Kernels loaded;
  for (const Kernel& kernel : kernels) loaded.push_back(&cuda::load(kernel, arch));
  return loaded;
}
// The loaded kernels of a plan for a call that runs or prepares on CUDA; else none.
inline Kernels load(const Call& call, const Target& target, const Plan& plan) {
  if (!target.cuda() || !call.loads()) return {};
  // Uploading 0 bytes loads the kernel that would upload a large window.
  if (call.prepares()) cuda::upload(nullptr, nullptr, 0, target.arch(), target.stream());
  return load_all(plan.kernels, target.arch());
}

// Explains the plan of a call that does not run, with `note` at the end. True: the plan was explained.
inline bool only_explain(Call& call, const Target& target, const Plan& plan, const std::string& note = "") {
  if (call.runs()) return false;
  std::ostringstream line;
  line << plan << call.refused;
  call.refused.clear();
  if (target.cuda()) line << "; floor " << plan.bytes / target.arch().bytes_per_second * 1e6 << " us";
  if (*environment("TORCH_CONV_EXPLAIN_KERNELS"))
    for (const Kernel& kernel : plan.kernels) line << "; kernel " << kernel.name;
  line << note;
  call.explain(line.str());
  return true;
}

// Keeps the refusals of a plan without a variant; the line of the next explained plan ends with them.
inline void note_refusals(Call& call, const Plan& plan) {
  if (call.runs()) return;
  for (const Refusal& r : plan.refused)
    call.refused += std::string("; not ") + plan.algorithm + "/" + r.variant + ": " + r.why;
}

// Refuses the call where no variant serves. `wanted`: the algorithm that the caller asked for, or "".
template <typename Problem>
void check_serves(const Call& call, const Decision<Problem>& d, const char* wanted = "") {
  if (d.serves()) return;
  if (*d.pinned)
    refuse(call.op, "variant '", d.pinned, "' cannot serve this call", d.plan->refused.empty() ? "" : ": ",
           d.plan->refused.empty() ? "" : d.plan->refused.back().why);
  if (*wanted) refuse(call.op, "algorithm '", wanted, "' cannot serve this call: ", d.plan->why);
  refuse(call.op, "no kernel serves this call: ", d.plan->why);
}

// The launch of a decision, on the memory of any replay.
template <typename Problem>
class Launch {
 public:
  Launch(LaunchGraph& graph, const Decision<Problem>& d, Kernels kernels)
      : problem_(d.problem), plan_(d.plan), kernels_(std::move(kernels)) {
    each_address(problem_, [&](auto*& address) { slots_.push_back(address ? graph.find(address) : Slot{-1, 0}); });
  }
  // The CPU has no stream and no scratch memory.
  void run(const Replay& r, void* stream, void* scratch) const {
    run_plan(at(r), *plan_, {stream, scratch, kernels_.data()});
  }

 private:
  Problem at(const Replay& r) const {
    Problem p = problem_;
    const Slot* slot = slots_.data();
    each_address(
        p, [&](auto*& address) { address = static_cast<std::remove_reference_t<decltype(address)>>(r.at(*slot++)); });
    return p;
  }

  Problem problem_;
  std::shared_ptr<const Plan> plan_;
  Kernels kernels_;
  std::vector<Slot> slots_;
};

// Whether a call runs on a stand-in until the decision's kernels are compiled.
template <typename Problem>
bool lacks_kernels(const Call& call, const Target& target, const Decision<Problem>& d) {
  return !*d.pinned && takes_stand_ins(call, target) && !all_ready(*d.plan, target.arch());
}

// The plan that runs now: the decision's, or a stand-in. Null: the decision's kernels are compiled meanwhile, and the
// caller's other launches, which have the same bits, replace them.
template <typename Problem>
std::shared_ptr<const Plan> plan_for_now(Call& call, const Target& target, const Decision<Problem>& d,
                                         bool has_other_launches = false) {
  if (!call.runs() || !lacks_kernels(call, target, d)) return d.plan;
  std::shared_ptr<const Plan> plan = stand_in(target, d.problem, *d.plan, d.plan_cuda);
  if (!plan && !(has_other_launches && d.plan->bits == kChainBits)) return d.plan;
  const bool compiles = compile_meanwhile(call, target, d.plan);
  if (!plan) call.replaces_fused = compiles;
  return plan;
}

// The note of `explain` on the first call.
template <typename Problem>
std::string note_on_first_call(const Call& call, const Target& target, const Decision<Problem>& d,
                               bool has_other_launches) {
  if (call.purpose != Purpose::explain || !lacks_kernels(call, target, d)) return "";
  if (const auto plan = stand_in(target, d.problem, *d.plan, d.plan_cuda))
    return std::string("; until it is compiled, by ") + plan->algorithm + "/" + plan->variant;
  const bool others = has_other_launches && d.plan->bits == kChainBits;
  return others ? "; until it is compiled, by other launches" : "; the first call waits for the compiler";
}

// Runs a plan of a decision, or explains it, with `note` at the end.
template <typename Problem>
void launch_plan(Call& call, const Target& target, Decision<Problem> d, std::shared_ptr<const Plan> now,
                 const std::string& note) {
  d.plan = std::move(now);
  const Plan& plan = *d.plan;
  Kernels kernels = load(call, target, plan);
  if (only_explain(call, target, plan, note)) return;
  if (!target.cuda()) {
    run_plan(d.problem, plan, {});
    if (call.graph)
      call.graph->record([node = Launch<Problem>(*call.graph, d, {})](Replay& r) { node.run(r, nullptr, nullptr); });
    return;
  }
  std::optional<Tensor> scratch;
  if (plan.scratch_bytes > 0) scratch = allocate(call, target.input(), {plan.scratch_bytes}, ScalarType::Byte);
  void* const at = scratch ? scratch->data_ptr() : nullptr;
  run_plan(d.problem, plan, {target.stream(), at, kernels.data()});
  if (!call.graph) return;
  const Slot slot = at ? call.graph->find(at) : Slot{-1, 0};
  const int device = target.input().get_device_index();
  call.graph->record([device, slot, node = Launch<Problem>(*call.graph, d, std::move(kernels))](Replay& r) {
    const cuda::OnDevice current(device);
    node.run(r, cuda::current_stream(device), r.at(slot));
  });
}

// Runs or explains a decision whose family serves its problem.
template <typename Problem>
void launch(Call& call, const Target& target, const Decision<Problem>& d) {
  const std::string note = note_on_first_call(call, target, d, false);
  launch_plan(call, target, d, plan_for_now(call, target, d), note);
}

// The same for a caller that has other launches with the same bits. False: the caller runs these, because the family
// does not serve the problem, or because its kernels are not compiled yet. The next plan that is explained has the
// refusals.
template <typename Problem>
bool launch_if_served(Call& call, const Target& target, const Decision<Problem>& d) {
  if (!d.serves()) return note_refusals(call, *d.plan), false;
  const std::string note = note_on_first_call(call, target, d, true);
  const std::shared_ptr<const Plan> plan = plan_for_now(call, target, d, true);
  if (plan) launch_plan(call, target, d, plan, note);
  return plan != nullptr;
}

}  // namespace torch_conv
