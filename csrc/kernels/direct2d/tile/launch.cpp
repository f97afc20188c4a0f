#include "runtime/launch.h"

#include "kernels/direct2d/tile/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::direct2d {

void launch_tile(const Direct& p, const Plan& plan, const Site& site) {
  const auto& [kind, lead, overlap] = own_config<TileConfig>(plan);
  const Direct q = tile_image(p, kind);
  const int pack = tma::pack_of(size_of(q.in.dtype));
  const PlaneTileShape shape = tile_shape(q, kind);
  TensorMap map{};
  const int rows = shape.box_rows(tile_window(q, kind));
  if (kind.group) map = tma::pixels_map(p.in, kind.group, shape.columns() / kind.group, rows);
  else if (kind.bulk) map = tma::plane_map(q.in, shape.columns() / pack, rows, pack);
  launch(plan, site, map, plane_args(p, q, plan, lead, overlap), ParamTaps::of(p));
}

}  // namespace torch_conv::direct2d
