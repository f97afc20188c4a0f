#include "runtime/launch.h"

#include "kernels/depthwise/planes_mma/plan.h"

namespace torch_conv::depthwise {

void launch_planes_mma(const Depthwise& p, const Plan& plan, const Site& site) {
  const auto& c = own_config<PlanesMmaConfig>(plan);
  const int chunks = int(ceil_div(p.in.n, c.images));
  const int64_t steps = ceil_div(p.in.c, c.shape.group) * chunks;
  launch(plan, site,
         PlanesMmaArgs{.in = p.in.data,
                       .weight = p.weight,
                       .bias = p.bias,
                       .out = p.out.data,
                       .stride_n_in = p.in.stride_n,
                       .stride_n_out = p.out.stride_n,
                       .n = int(p.in.n),
                       .c = int(p.in.c),
                       .h = int(p.in.h),
                       .w = int(p.in.w),
                       .h_out = int(p.out.h),
                       .w_out = int(p.out.w),
                       .kw = int(p.kw),
                       .pad_y = int(p.place.pad_y),
                       .pad_x = int(p.place.pad_x),
                       .lead = c.lead,
                       .tiles = c.tiles,
                       .strips = c.strips,
                       .images = c.images,
                       .units = c.units,
                       .passes = c.passes,
                       .over_tiles = int(ceil_div(65536, c.tiles)),
                       .over_strips = int(ceil_div(65536, c.strips)),
                       .chunks = chunks,
                       .each = int(steps / plan.blocks),
                       .more = int(steps % plan.blocks),
                       .stages = c.stages,
                       .image_bytes = c.image_bytes,
                       .image_bytes_out = c.image_bytes_out});
}

}  // namespace torch_conv::depthwise
