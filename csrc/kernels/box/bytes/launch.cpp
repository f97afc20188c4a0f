#include "runtime/launch.h"

#include "kernels/box/bytes/plan.h"

namespace torch_conv::box {

void launch_bytes(const Box& p, const Plan& plan, const Site& site) {
  launch(plan, site, byte_args(p, plan, own_config<ByteShape>(plan)));
}

}  // namespace torch_conv::box
