#include "runtime/launch.h"

#include "kernels/separable2d/ring/plan.h"
#include "kernels/separable2d/shared/pass_taps.h"
#include "runtime/tensor_map.h"

namespace torch_conv::separable2d {

void launch_ring(const Separable& p, const Plan& plan, const Site& site) {
  const RingPolicy& s = own_config<RingPolicy>(plan);
  const TensorMap map = s.bulk ? tma::plane_map(as_rows(p).in, s.pitch(), kRingPiece) : TensorMap{};
  launch(plan, site, ring_params(p, plan, s, pass_taps(p, true, true)), map);
}

}  // namespace torch_conv::separable2d
