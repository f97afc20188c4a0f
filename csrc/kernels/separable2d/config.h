// The launch of a plan.
#pragma once

#include "kernels/launch_config.h"

namespace torch_conv::separable2d {

using Config = LaunchConfig<Separable>;

}  // namespace torch_conv::separable2d
