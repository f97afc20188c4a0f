#include "runtime/launch.h"

#include "kernels/depthwise/large/plan.h"

namespace torch_conv::depthwise {

void launch_large(const Depthwise& p, const Plan& plan, const Site& site) {
  launch(plan, site,
         LargeArgs{.p = p,
                   .s = own_config<LargeShape>(plan),
                   .multiplier = int(p.multiplier()),
                   .store_vectors = rows_start_on(p.out, 4 * size_of(p.out.dtype))});
}

}  // namespace torch_conv::depthwise
