#include "runtime/launch.h"

#include "kernels/depthwise/tiles/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::depthwise {

void launch_tiles(const Depthwise& p, const Plan& plan, const Site& site) {
  const TilesConfig& c = own_config<TilesConfig>(plan);
  const int pack = tma::pack_of(size_of(p.in.dtype));
  TensorMap map{};
  if (c.shape.load == 0) map = tma::plane_map(p.in, c.pitch / pack, c.box_rows, pack);
  launch(plan, site,
         TilesArgs{.in = p.in.data,
                   .weight = p.weight,
                   .bias = p.bias,
                   .out = p.out.data,
                   .in_n = p.in.stride_n,
                   .in_c = p.in.stride_c,
                   .in_h = p.in.stride_h,
                   .out_n = p.out.stride_n,
                   .out_c = p.out.stride_c,
                   .out_h = p.out.stride_h,
                   .planes = unsigned(p.out.n * p.out.c),
                   .channels = unsigned(p.out.c),
                   .multiplier = unsigned(p.multiplier()),
                   .h = int(p.in.h),
                   .w = int(p.in.w),
                   .out_h_size = int(p.out.h),
                   .out_w_size = int(p.out.w),
                   .pad_y = int(p.place.pad_y),
                   .pad_x = int(p.place.pad_x),
                   .group = c.group,
                   .tiles_x = c.tiles_x,
                   .tiles_y = c.tiles_y,
                   .tile_w = c.strips * c.shape.px,
                   .tile_h = c.bands * c.shape.ry,
                   .units = SmallDivisor::of(c.strips * c.bands),
                   .strips = SmallDivisor::of(c.strips),
                   .first_row = c.first_row,
                   .first_column = c.first_column,
                   .rows = c.rows,
                   .vectors = SmallDivisor::of(c.vectors),
                   .step_rows = plan.threads / std::max(1, c.vectors),
                   .step_vectors = plan.threads % std::max(1, c.vectors),
                   .lead = c.lead,
                   .skip = c.skip,
                   .box_bytes = c.box_rows * c.pitch * size_of(p.in.dtype),
                   .pitch = c.pitch,
                   .slot = c.slot,
                   .taps_at = c.taps_at,
                   .positions_at = c.positions_at,
                   .results_at = c.results_at},
         map);
}

}  // namespace torch_conv::depthwise
