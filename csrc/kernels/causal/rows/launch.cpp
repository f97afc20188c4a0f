#include "runtime/launch.h"

#include "kernels/causal/rows/plan.h"

namespace torch_conv::causal {

void launch_rows(const CausalConv& p, const Plan& plan, const Site& site) {
  const LaneGroups split = lane_groups_of(p);
  int log2 = 0;
  while (1 << log2 < split.lanes) ++log2;
  const int64_t last = (p.n - 1) * p.x.stride_n + (p.c - 1) * p.x.stride_c + p.l;
  launch(plan, site,
         RowsArgs{.p = p,
                  .x = Starts::of(p.x),
                  .out = Starts::of(p.out),
                  .groups = Divisor::of(split.groups),
                  .channels = Divisor::of(p.c),
                  .rows = unsigned(p.n * p.c),
                  .lanes_log2 = log2,
                  .end = static_cast<const char*>(p.x.data) + last * size_of(p.dtype)});
}

}  // namespace torch_conv::causal
