#include "runtime/launch.h"

#include "kernels/depthwise/general/params.h"
#include "kernels/depthwise/general/plan.h"

namespace torch_conv::depthwise {

void launch_general(const Depthwise& p, const Plan& plan, const Site& site) {
  const int64_t fours = ceil_div(p.out.w, 4);
  launch(plan, site,
         DepthwiseGeneralArgs{.p = p,
                              .groups_of_four = fours,
                              .threads = p.out.n * p.out.c * p.out.h * fours,
                              .channels_inner = channels_inner(p.out)});
}

}  // namespace torch_conv::depthwise
