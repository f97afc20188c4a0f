// The launch of `combine` on CUDA: the pointwise end of a stage, where a chain is taken apart.
#include "kernels/fused/combine/plan.h"
#include "runtime/launch.h"

namespace torch_conv::fused {

Plan plan_combine_cuda(const Combine& p, const Arch& arch, const char* pinned) { return plan_combine(p, arch, pinned); }

void run_combine_cuda(const Combine& p, const Plan& plan, const Site& site) {
  const int vector = std::any_cast<const CombineConfig&>(plan.config).vector;
  launch(plan, site, in_rows(p), count_pixels(p.out) / vector);
}

}  // namespace torch_conv::fused
