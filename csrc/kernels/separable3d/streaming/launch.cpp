#include "runtime/launch.h"

#include "kernels/separable3d/streaming/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::separable3d {

void launch_streaming(const Separable& p, const Plan& plan, const Site& site) {
  const StreamingConfig& config = own_config<StreamingConfig>(plan);
  const int pack = tma::pack_of(size_of(p.in.dtype));
  const auto map_of = [&](const Image& x) {
    return config.bulk ? tma::volume_map(x, config.shape.pitch() / pack, config.shape.box_h(), pack) : TensorMap{};
  };
  const StreamingParams params = streaming_params(p, plan, config);
  if (p.peers.any()) launch(plan, site, params, ShardMaps::of(p.in, p.peers, map_of));
  else launch(plan, site, params, map_of(p.in));
}

}  // namespace torch_conv::separable3d
