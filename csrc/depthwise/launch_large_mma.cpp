#include "cuda/launch.h"
#include "depthwise/plan_large_mma.h"

namespace torch_conv::depthwise {

// The widest word on which all rows of an image start.
static int word_of(const Image& x) {
  int bytes = 16;
  while (bytes > 2 && !rows_start_on(x, bytes)) bytes /= 2;
  return bytes;
}

void launch_large_mma(const Depthwise& p, const Plan& plan, const Site& site) {
  const LargeConfig& config = own_config<LargeConfig>(plan);
  launch(plan, site,
         LargeArgs{.p = p,
                   .s = config.shape,
                   .channel_groups = unsigned(config.channel_groups),
                   .multiplier = int(p.multiplier()),
                   .load_bytes = word_of(p.in),
                   .store_bytes = word_of(p.out)});
}

}  // namespace torch_conv::depthwise
