#include "runtime/launch.h"

#include "kernels/separable2d/shared/pass_taps.h"
#include "kernels/separable2d/typed_ring/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::separable2d {

void launch_typed_ring(const Separable& p, const Plan& plan, const Site& site) {
  const TypedTile& tile = own_config<TypedTile>(plan);
  const Image in = as_rows(p).in;
  const int pack = tma::pack_of(size_of(in.dtype));
  const TensorMap map = tma::plane_map(in, tile.pitch / pack, kRingPiece, pack);
  launch(plan, site, typed_params(p, tile, pass_taps(p, true, true)), map);
}

}  // namespace torch_conv::separable2d
