#include "runtime/launch.h"

#include "kernels/direct2d/mma/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::direct2d {

void launch_mma(const Direct& p, const Plan& plan, const Site& site) {
  const MmaShape s = mma_shape(p);
  const Image rows = as_rows(p.in, s.channels);
  const TensorMap map = mma_bulk(p) ? tma::plane_map(rows, s.box_w() / s.pack(), s.box_h(), s.pack()) : TensorMap{};
  launch(plan, site, map, mma_args(p, plan), ParamTaps::of(p));
}

}  // namespace torch_conv::direct2d
