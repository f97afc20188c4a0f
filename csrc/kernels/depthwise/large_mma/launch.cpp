#include "runtime/launch.h"

#include "kernels/depthwise/large_mma/plan.h"

namespace torch_conv::depthwise {

// The widest vector, in bytes, to which all rows of an image are aligned.
static int vector_bytes(const Image& x) {
  int bytes = 16;
  while (bytes > 2 && !rows_start_on(x, bytes)) bytes /= 2;
  return bytes;
}

void launch_large_mma(const Depthwise& p, const Plan& plan, const Site& site) {
  const LargeMmaConfig& config = own_config<LargeMmaConfig>(plan);
  const LargeMmaShape& s = config.shape;
  launch(plan, site,
         LargeMmaArgs{.p = p,
                      .s = s,
                      .channel_groups = unsigned(config.channel_groups),
                      .by_kw = FastDivisor::of(unsigned(p.kw)),
                      .by_tiles_x = FastDivisor::of(unsigned(s.tiles_x)),
                      .by_tiles_y = FastDivisor::of(unsigned(s.tiles_y)),
                      .by_channel_groups = FastDivisor::of(unsigned(config.channel_groups)),
                      .by_per_channel = FastDivisor::of(unsigned(s.row_groups * s.column_tiles)),
                      .by_column_tiles = FastDivisor::of(unsigned(s.column_tiles)),
                      .by_multiplier = FastDivisor::of(unsigned(p.multiplier())),
                      .plane_bytes = config.plane_bytes,
                      .load_bytes = vector_bytes(p.in),
                      .store_bytes = vector_bytes(p.out)});
}

}  // namespace torch_conv::depthwise
