#include "runtime/launch.h"

#include "kernels/weight_gradient/streaming/plan.h"

namespace torch_conv::weight_gradient {

void launch_streaming(const WeightGradient& p, const Plan& plan, const Site& site) {
  const auto& c = own_config<GradientConfig>(plan);
  float* const sums = static_cast<float*>(site.scratch);
  launch_kernel(*site.kernels[0], {c.splits, unsigned(c.groups), unsigned(c.rounds)}, {kThreads}, 0, site.stream,
                sums_args(p, c, sums));
  const FinishArgs finish = finish_args(p, c, sums);
  launch_kernel(*site.kernels[1], {ceil_div(finish.count, 32)}, {32 * kPartials}, 0, site.stream, finish);
}

}  // namespace torch_conv::weight_gradient
