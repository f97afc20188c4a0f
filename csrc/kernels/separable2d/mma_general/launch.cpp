#include "runtime/launch.h"

#include "kernels/separable2d/mma_general/plan.h"
#include "kernels/separable2d/shared/pass_taps.h"

namespace torch_conv::separable2d {

void launch_mma_general(const Separable& p, const Plan& plan, const Site& site) {
  launch(plan, site, mma_general_args(p, plan, pass_taps(p, true, true)));
}

}  // namespace torch_conv::separable2d
