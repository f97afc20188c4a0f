// Plan -> parameters and launch; one function per kernel.
#include "runtime/launch.h"

#include "core/general.h"
#include "kernels/direct2d/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::direct2d {

namespace {

void launch_reg(const Direct& p, const Plan& plan, const Config& config, const Site& site) {
  launch(plan, site, plane_args(p, p, plan, config), ParamTaps::of(p));
}

void launch_tile(const Direct& p, const Plan& plan, const Config& config, const Site& site) {
  const TileKind& kind = config.tile;
  const Direct q = tile_image(p, kind);
  const int pack = tma::pack_of(size_of(q.in.dtype));
  const TileShape shape = tile_shape(q, kind);
  TensorMap map{};
  const int rows = shape.box_rows(tile_window(q, kind));
  if (kind.group) map = tma::pixels_map(p.in, kind.group, shape.columns() / kind.group, rows);
  else if (kind.bulk) map = tma::plane_map(q.in, shape.columns() / pack, rows, pack);
  launch(plan, site, map, plane_args(p, q, plan, config), ParamTaps::of(p));
}

void launch_mma(const Direct& p, const Plan& plan, const Site& site) {
  const MmaShape s = mma_shape(p);
  const Image rows = as_rows(p.in, s.channels);
  const TensorMap map = mma_bulk(p) ? tma::plane_map(rows, s.box_w() / s.pack(), s.box_h(), s.pack()) : TensorMap{};
  launch(plan, site, map, mma_args(p, plan), ParamTaps::of(p));
}

void launch_channels(const Direct& p, const Plan& plan, const ChannelShape& s, const Site& site) {
  const ChannelArgs args{.in = p.in.data,
                         .out = p.out.data,
                         .in_n = p.in.stride_n,
                         .in_y = p.in.stride_h,
                         .out_n = p.out.stride_n,
                         .out_y = p.out.stride_h,
                         .in_x = int(p.in.stride_w),
                         .out_x = int(p.out.stride_w),
                         .in_h = int(p.in.h),
                         .in_w = int(p.in.w),
                         .out_h = int(p.out.h),
                         .rows = s.rows,
                         .words = unsigned(p.out.w * s.words),
                         .blocks = FastDivisor::of(unsigned(ceil_div(p.out.w * s.words, plan.threads))),
                         .strips = FastDivisor::of(unsigned(ceil_div(p.out.h, s.rows))),
                         .group = FastDivisor::of(unsigned(s.group)),
                         .columns = FastDivisor::of(unsigned(p.out.w)),
                         .pad_y = int(p.place.pad_y),
                         .pad_x = int(p.place.pad_x),
                         .border = p.place.border,
                         .value = float(p.place.value),
                         .taps_n = p.taps.stride_n,
                         .taps_c = p.taps.stride_c};
  launch(plan, site, args, ParamTaps::of(p));
}

void launch_column(const Direct& p, const Plan& plan, const Site& site) {
  const Direct c = flattened(p);
  const ColumnArgs args{.in = c.in.data,
                        .out = c.out,
                        .in_n = c.in.stride_n,
                        .in_c = c.in.stride_c,
                        .row_bytes = unsigned(c.in.stride_h * size_of(c.in.dtype)),
                        .h = int(c.in.h),
                        .kh = int(c.kh),
                        .pad = int(c.place.pad_y),
                        .tiles_x = unsigned(ceil_div(c.out.w, plan.tile_w)),
                        .tiles_y = unsigned(ceil_div(c.out.h, plan.tile_h)),
                        .channels_out = unsigned(c.out.c),
                        .multiplier = unsigned(c.out.c / c.groups),
                        .border = c.place.border,
                        .value = c.place.value,
                        .taps_n = c.taps.stride_n,
                        .taps_c = c.taps.stride_c,
                        .bias = c.bias};
  launch(plan, site, args, ParamTaps::of(p));
}

void launch_window(const Direct& p, const Plan& plan, const WindowShape& shape, const Site& site) {
  const WindowArgs args{.p = p,
                        .peers = Neighbours::of(p.peers, p.in),
                        .pitch = int(shape.pitch),
                        .rows = int(shape.rows),
                        .tap_pitch = int(shape.tap_pitch),
                        .tiles_x = int(ceil_div(p.out.w, plan.tile_w)),
                        .tiles_y = int(ceil_div(p.out.h, plan.tile_h)),
                        .in_per_group = int(p.in.c / p.groups),
                        .out_per_group = int(p.out.c / p.groups)};
  launch(plan, site, args, ParamTaps::of(p));
}

}  // namespace

Plan plan_cuda(const Direct& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const Direct& p, const Plan& plan, const Site& site) {
  const Config& config = *std::any_cast<Config>(&plan.config);
  switch (config.variant) {
    case Variant::reg: return launch_reg(p, plan, config, site);
    case Variant::mma: return launch_mma(p, plan, site);
    case Variant::tile: return launch_tile(p, plan, config, site);
    case Variant::channels: return launch_channels(p, plan, config.channels, site);
    case Variant::column: return launch_column(p, plan, site);
    case Variant::window: return launch_window(p, plan, config.window, site);
    case Variant::general: return launch(plan, site, GeneralArgs::of(p), ParamTaps::of(p));
  }
}

}  // namespace torch_conv::direct2d
