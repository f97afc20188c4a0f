#include "runtime/launch.h"

#include "kernels/direct3d/streaming/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::direct3d {

void launch_streaming(const Direct& p, const Plan& plan, const Site& site) {
  const auto& streaming = own_config<VolumeStreamingConfig>(plan);
  const int vector = 16 / size_of(p.in.dtype);
  const auto maps_of_width = [&](int width) {
    return [&streaming, &p, width](const Image& x) {
      return streaming.bulk ? tma::volume_map(x, width, streaming.shape.rows_in(int(p.kh))) : TensorMap{};
    };
  };
  const auto map_of = maps_of_width(streaming.shape.width()), side_map_of = maps_of_width(vector);
  const VolumeArgs args = streaming_args(p, plan, streaming);
  const auto with_maps = [&](const auto& map, const auto& side) {
    if (streaming.constant) {
      ConstantTaps taps;
      std::memcpy(taps.tap, p.taps.data, sizeof(taps.tap));
      launch(plan, site, map, side, args, taps);
    } else {
      launch(plan, site, map, side, args, ParamTaps::of(p));
    }
  };
  if (p.peers.any()) with_maps(ShardMaps::of(p.in, p.peers, map_of), ShardMaps::of(p.in, p.peers, side_map_of));
  else with_maps(map_of(p.in), side_map_of(p.in));
}

}  // namespace torch_conv::direct3d
