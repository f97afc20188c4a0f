#include "runtime/launch.h"

#include "kernels/depthwise/channels_mma/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::depthwise {

void launch_channels_mma(const Depthwise& p, const Plan& plan, const Site& site) {
  const auto& config = own_config<ChannelsMmaConfig>(plan);
  const ChannelsMmaPolicy& t = config.tile;
  const auto from = [&](int rows) { return tma::channels_map(p.in, t.channels, t.pitch(), t.images(), rows); };
  const auto to = [&](int rows) { return tma::channels_map(p.out, t.channels, t.out_pitch(), t.images(), rows); };
  const ChannelsMmaArgs args{.p = p,
                             .chunks = config.chunks,
                             .segments = config.segments,
                             .blocks_y = config.blocks_y,
                             .each = config.each,
                             .total = config.total,
                             .zero = 0};
  const int lag = int(p.kh - 1 - p.place.pad_y);  // rows between an input row and the output row that it finishes
  launch(plan, site, args, from(t.rows()), from(t.kh > 1 ? t.kh - 1 : 1), to(t.rows()), to(t.rows() - lag));
}

}  // namespace torch_conv::depthwise
