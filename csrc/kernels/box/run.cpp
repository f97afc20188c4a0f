// The kernel family's entry points on CUDA.
#include <algorithm>
#include <iterator>

#include "kernels/box/depth/plan.h"
#include "kernels/box/plan.h"
#include "runtime/launch.h"

namespace torch_conv::box {

Plan plan_cuda(const Box& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const Box& p, const Plan& plan, const Site& site) {
  if (plan.blocks > 0) launch_config(p, plan).launch(p, plan, site);
}

Plan plan_depth_cuda(const BoxDepth& p, const Arch& arch, const char* variant) { return depth_plan(p, arch, variant); }

bool is_depth_variant(const char* name) {
  return std::any_of(std::begin(kDepthCandidates), std::end(kDepthCandidates),
                     [&](const auto& candidate) { return std::strcmp(name, candidate.variant) == 0; });
}

void run_depth_cuda(const BoxDepth& p, const Plan& plan, const Site& site) {
  if (plan.blocks > 0) launch(plan, site, depth_args(p, plan, *std::any_cast<DepthConfig>(&plan.config)));
}

}  // namespace torch_conv::box
