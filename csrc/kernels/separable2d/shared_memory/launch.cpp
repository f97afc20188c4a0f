#include "runtime/launch.h"

#include "kernels/separable2d/shared/general_params.h"
#include "kernels/separable2d/shared/pass_taps.h"
#include "kernels/separable2d/shared_memory/plan.h"

namespace torch_conv::separable2d {

void launch_shared_memory(const Separable& p, const Plan& plan, const Site& site) {
  launch(plan, site, general_params(p, own_config<GeneralTile>(plan), p.out.h, plan.tile_h, pass_taps(p, true, true)));
}

}  // namespace torch_conv::separable2d
