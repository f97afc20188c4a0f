// Launches decisions, and records the launches in the call's graph.
#pragma once

#include "graph/allocate.h"
#include "graph/decision.h"
#include "graph/launch_graph.h"

namespace torch_conv {

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

// Runs a decision whose family serves its problem, or explains its plan.
template <typename Problem>
void launch(Call& call, const Target& target, const Decision<Problem>& d) {
  const Plan& plan = *d.plan;
  Kernels kernels = load(call, target, plan);
  if (only_explain(call, target, plan)) return;
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

}  // namespace torch_conv
