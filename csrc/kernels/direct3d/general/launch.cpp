#include "runtime/launch.h"

#include "core/general_window.h"
#include "core/taps.h"
#include "kernels/direct3d/general/plan.h"

namespace torch_conv::direct3d {

void launch_general(const Direct& p, const Plan& plan, const Site& site) {
  launch(plan, site, GeneralWindowArgs::of(p), ParamTaps::of(p));
}

}  // namespace torch_conv::direct3d
