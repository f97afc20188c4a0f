// Plan -> parameters and launch; one function per kernel.
#include "runtime/launch.h"

#include "core/general.h"
#include "kernels/direct3d/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::direct3d {

namespace {

void launch_channels(const Direct& p, const Plan& plan, const Site& site) {
  const int bytes = size_of(p.in.dtype);
  const ChannelsArgs args{.in = p.in.data,
                          .out = p.out.data,
                          .in_n = p.in.stride_n,
                          .in_d = p.in.stride_d,
                          .out_n = p.out.stride_n,
                          .out_d = p.out.stride_d,
                          .in_h = unsigned(p.in.stride_h * bytes),
                          .in_w = unsigned(p.in.stride_w * bytes),
                          .out_h = unsigned(p.out.stride_h * bytes),
                          .out_w = unsigned(p.out.stride_w * bytes),
                          .d = int(p.in.d),
                          .h = int(p.in.h),
                          .w = int(p.in.w),
                          .d_out = int(p.out.d),
                          .h_out = int(p.out.h),
                          .w_out = int(p.out.w),
                          .c = int(p.in.c),
                          .tiles_x = int(ceil_div(p.out.w, plan.tile_w)),
                          .tiles_y = int(ceil_div(p.out.h, plan.tile_h)),
                          .tiles_c = int(ceil_div(p.out.c * bytes, 64)),
                          .chunks = int(ceil_div(p.out.d, plan.tile_d)),
                          .chunk = plan.tile_d,
                          .pad_z = int(p.place.pad_z),
                          .pad_y = int(p.place.pad_y),
                          .pad_x = int(p.place.pad_x),
                          .border = p.place.border,
                          .value = float(p.place.value),
                          .taps_n = p.taps.stride_n,
                          .taps_c = p.taps.stride_c,
                          .bias = static_cast<const float*>(p.bias)};
  launch(plan, site, args, ParamTaps::of(p));
}

void launch_planes(const Direct& p, const Plan& plan, const PlanesShape& s, const Site& site) {
  const PlanesArgs args{.in = p.in.data,
                        .out = p.out.data,
                        .volume_in = p.in.d * p.in.h * p.in.w,
                        .volume_out = p.out.d * p.out.h * p.out.w,
                        .d = int(p.in.d),
                        .h = int(p.in.h),
                        .w = int(p.in.w),
                        .d_out = int(p.out.d),
                        .volumes = int(p.out.n * p.out.c),
                        .channels_out = int(p.out.c),
                        .multiplier = int(p.out.c / p.groups),
                        .pad_z = int(p.place.pad_z),
                        .group = s.channels,
                        .units_x = s.units_x,
                        .units = s.units,
                        .lanes = s.lanes,
                        .stages = s.stages,
                        .stage_bytes = s.stage_bytes,
                        .slot_bytes = s.slot_bytes,
                        .plane_bytes = int(p.in.h * p.in.w * size_of(p.in.dtype)),
                        .chunk = plan.tile_d,
                        .total = int(ceil_div(p.out.n * p.out.c, s.channels) * p.out.d),
                        .border = p.place.border,
                        .value = float(p.place.value),
                        .taps_n = p.taps.stride_n,
                        .taps_c = p.taps.stride_c,
                        .bias = static_cast<const float*>(p.bias)};
  launch(plan, site, args, ParamTaps::of(p));
}

void launch_streaming(const Direct& p, const Plan& plan, const StreamingConfig& streaming, const Site& site) {
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
  if (p.peers.any()) with_maps(ShardVolume::of(p.in, p.peers, map_of), ShardVolume::of(p.in, p.peers, side_map_of));
  else with_maps(map_of(p.in), side_map_of(p.in));
}

void launch_window(const Direct& p, const Plan& plan, const WindowShape& shape, const Site& site) {
  const WindowArgs args{.p = p,
                        .part = int(shape.part),
                        .pitch = int(shape.pitch),
                        .rows = int(shape.rows),
                        .tap_pitch = int(shape.tap_pitch),
                        .tiles_x = int(ceil_div(p.out.w, shape.width)),
                        .tiles_y = int(ceil_div(p.out.h, shape.height)),
                        .width_log2 = shape.width == 128  ? 7
                                      : shape.width == 64 ? 6
                                                          : 5,
                        .in_per_group = int(p.in.c / p.groups),
                        .out_per_group = int(p.out.c / p.groups)};
  launch(plan, site, args, ParamTaps::of(p));
}

}  // namespace

Plan plan_cuda(const Direct& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const Direct& p, const Plan& plan, const Site& site) {
  const Config& config = *std::any_cast<Config>(&plan.config);
  switch (config.variant) {
    case Variant::channels: return launch_channels(p, plan, site);
    case Variant::planes: return launch_planes(p, plan, config.planes, site);
    case Variant::streaming: return launch_streaming(p, plan, config.streaming, site);
    case Variant::window: return launch_window(p, plan, config.window, site);
    case Variant::general: return launch(plan, site, GeneralArgs::of(p), ParamTaps::of(p));
  }
}

}  // namespace torch_conv::direct3d
