#include "runtime/launch.h"

#include "core/general_window.h"
#include "kernels/direct2d/general/plan.h"

namespace torch_conv::direct2d {

void launch_general(const Direct& p, const Plan& plan, const Site& site) {
  launch(plan, site, GeneralWindowArgs::of(p), ParamTaps::of(p));
}

}  // namespace torch_conv::direct2d
