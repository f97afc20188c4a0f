#include "runtime/launch.h"

#include "kernels/separable2d/mma/plan.h"
#include "kernels/separable2d/shared/pass_taps.h"
#include "runtime/tensor_map.h"

namespace torch_conv::separable2d {

void launch_mma(const Separable& p, const Plan& plan, const Site& site) {
  const MmaPolicy s = band_shape(p);
  const TensorMap in = s.loads ? tma::rows_map(as_rows(p.in, s.channels), s.box_h()) : TensorMap{};
  const TensorMap out = s.bulk_stores() ? tma::rows_map(p.out, 16) : TensorMap{};
  launch(plan, site, in, out, band_args(p, plan, pass_taps(p, true, true)));
}

}  // namespace torch_conv::separable2d
