#include "runtime/launch.h"

#include "kernels/separable2d/ring/plan.h"
#include "kernels/separable2d/shared/pass_taps.h"
#include "runtime/tensor_map.h"

namespace torch_conv::separable2d {

void launch_ring(const Separable& p, const Plan& plan, const Site& site) {
  const auto& [shape, bulk] = own_config<RingConfig>(plan);
  TensorMap map{};
  if (bulk) map = tma::plane_map(as_rows(p).in, shape.pitch(), kRingPiece);
  launch(plan, site, ring_params(p, plan, shape, pass_taps(p, true, true)), map);
}

}  // namespace torch_conv::separable2d
