#include "runtime/launch.h"

#include "kernels/separable2d/line_buffer/plan.h"
#include "kernels/separable2d/shared/pass_taps.h"

namespace torch_conv::separable2d {

void launch_line_buffer(const Separable& p, const Plan& plan, const Site& site) {
  launch(plan, site, line_params(p, own_config<LineTile>(plan), pass_taps(p, true, true)));
}

}  // namespace torch_conv::separable2d
