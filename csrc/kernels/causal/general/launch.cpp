#include "runtime/launch.h"

#include "kernels/causal/general/plan.h"

namespace torch_conv::causal {

void launch_general(const CausalConv& p, const Plan& plan, const Site& site) {
  launch(plan, site,
         GeneralArgs{.p = p,
                     .fours = ceil_div(p.l, 4),
                     .threads = general_threads(p),
                     .all = general_all(p),
                     .channels_inner = channels_inner(p.out, p.c)});
}

}  // namespace torch_conv::causal
