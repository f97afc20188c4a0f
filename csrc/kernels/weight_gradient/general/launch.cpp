#include "runtime/launch.h"

#include "kernels/weight_gradient/general/plan.h"

namespace torch_conv::weight_gradient {

void launch_general(const WeightGradient& p, const Plan& plan, const Site& site) {
  const auto& c = own_config<GradientConfig>(plan);
  float* const sums = static_cast<float*>(site.scratch);
  const unsigned parts = unsigned(std::min(general_parts(p), kMostPartsOfGrid));
  launch_kernel(*site.kernels[0], {c.splits, unsigned(c.groups), parts}, {kThreads}, 0, site.stream,
                general_args(p, c, sums));
  const FinishArgs finish = finish_args(p, c, sums);
  launch_kernel(*site.kernels[1], {ceil_div(finish.count, 32)}, {32 * kPartials}, 0, site.stream, finish);
}

}  // namespace torch_conv::weight_gradient
