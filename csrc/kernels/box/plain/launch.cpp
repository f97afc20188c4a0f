#include "runtime/launch.h"

#include "kernels/box/plain/plan.h"
#include "kernels/box/shared/integer_args.h"

namespace torch_conv::box {

void launch_plain(const Box& p, const Plan& plan, const Site& site) {
  // Blocks beyond the grid's limit loop over the rest of the work.
  launch_kernel(*site.kernels[0], GridSize{std::min<int64_t>(plan.blocks, INT_MAX)}, {unsigned(plan.threads)},
                plan.shared_bytes, site.stream, integer_args(p, plan, false));
}

}  // namespace torch_conv::box
