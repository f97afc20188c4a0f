#include "runtime/launch.h"

#include "kernels/causal/update/plan.h"

namespace torch_conv::causal {

void launch_update(const CausalUpdate& p, const Plan& plan, const Site& site) {
  launch(plan, site, UpdateArgs{.p = p, .across = Divisor::of(plan.blocks / p.n)});
}

}  // namespace torch_conv::causal
