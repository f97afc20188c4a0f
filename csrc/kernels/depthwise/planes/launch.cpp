#include "runtime/launch.h"

#include "kernels/depthwise/planes/plan.h"

namespace torch_conv::depthwise {

void launch_planes(const Depthwise& p, const Plan& plan, const Site& site) {
  const PlanesConfig& c = own_config<PlanesConfig>(plan);
  const int64_t jobs = ceil_div(p.out.c, c.shape.group) * p.in.n;
  launch(plan, site,
         PlanesArgs{.in = p.in.data,
                    .weight = p.weight,
                    .bias = p.bias,
                    .out = p.out.data,
                    .in_n = p.in.stride_n,
                    .out_n = p.out.stride_n,
                    .channels = int(p.out.c),
                    .images = unsigned(p.in.n),
                    .jobs = unsigned(jobs),
                    .each = unsigned(jobs / plan.blocks),
                    .more = unsigned(jobs % plan.blocks),
                    .stages = c.stages});
}

}  // namespace torch_conv::depthwise
