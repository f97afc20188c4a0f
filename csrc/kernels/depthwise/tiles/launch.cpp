#include "runtime/launch.h"

#include "kernels/depthwise/tiles/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::depthwise {

void launch_tiles(const Depthwise& p, const Plan& plan, const Site& site) {
  const TilesConfig& config = own_config<TilesConfig>(plan);
  const int pack = tma::pack_of(size_of(p.in.dtype));
  TensorMap map{};
  if (config.policy.load == 0) map = tma::plane_map(p.in, config.pitch / pack, config.box_rows, pack);
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
                   .group = config.group,
                   .tiles_x = config.tiles_x,
                   .tiles_y = config.tiles_y,
                   .tile_w = config.strips * config.policy.px,
                   .tile_h = config.bands * config.policy.ry,
                   .units = SmallDivisor::of(config.strips * config.bands),
                   .strips = SmallDivisor::of(config.strips),
                   .first_row = config.first_row,
                   .first_column = config.first_column,
                   .rows = config.rows,
                   .vectors = SmallDivisor::of(config.vectors),
                   .step_rows = plan.threads / std::max(1, config.vectors),
                   .step_vectors = plan.threads % std::max(1, config.vectors),
                   .lead = config.lead,
                   .skip = config.skip,
                   .box_bytes = config.box_rows * config.pitch * size_of(p.in.dtype),
                   .pitch = config.pitch,
                   .slot = config.slot,
                   .taps_at = config.taps_at,
                   .positions_at = config.positions_at,
                   .results_at = config.results_at},
         map);
}

}  // namespace torch_conv::depthwise
