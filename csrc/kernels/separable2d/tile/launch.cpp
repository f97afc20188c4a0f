#include "runtime/launch.h"

#include "kernels/separable2d/shared/pass_taps.h"
#include "kernels/separable2d/tile/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::separable2d {

void launch_tile(const Separable& p, const Plan& plan, const Site& site) {
  const auto& [shape, bulk] = own_config<TileConfig>(plan);
  const int pack = tma::pack_of(size_of(p.in.dtype));
  TensorMap map{};
  if (bulk) map = tma::plane_map(as_rows(p).in, shape.pitch / pack, shape.box_h, pack);
  launch(plan, site, tile_params(p, shape, bulk, pass_taps(p, true, true)), map);
}

}  // namespace torch_conv::separable2d
