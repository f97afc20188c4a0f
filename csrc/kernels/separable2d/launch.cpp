// Plan -> parameters and launch; one function per kernel.
#include "runtime/launch.h"

#include "kernels/separable2d/plan.h"
#include "runtime/tensor_map.h"

namespace torch_conv::separable2d {

namespace {

// Bytes of host taps from the first window's first tap to the last window's last one.
int64_t host_bytes(const Separable& p, const Taps& taps, int64_t k) {
  if (!taps.on_host) return 0;
  return ((p.out.n - 1) * taps.stride_n + (p.out.c - 1) * taps.stride_c + k) * acc_bytes(p.in.dtype);
}

// Windows of the host stand one behind the other, each from 16 bytes on. A pass that is not named stays without taps.
PassTaps pass_taps(const Separable& p, bool row_pass, bool column_pass) {
  PassTaps t{};
  int64_t used = 0;
  auto window = [&](const Taps& taps, int64_t k) {
    const int64_t bytes = host_bytes(p, taps, k);
    const int start = int(used);
    if (taps.on_host) std::memcpy(t.bytes + start, taps.data, bytes);
    used = round_up(used + bytes, 16);
    return PassTaps::Pass{taps.on_host ? nullptr : taps.data, start, taps.stride_n, taps.stride_c};
  };
  if (row_pass) t.x = window(p.taps_x, p.kw);
  if (column_pass) t.y = window(p.taps_y, p.kh);
  return t;
}

void launch_products(const Separable& p, const Plan& plan, const Site& site) {
  const BandShape s = band_shape(p);
  const TensorMap in = s.loads ? tma::rows_map(as_rows(p.in, s.channels), s.box_h()) : TensorMap{};
  const TensorMap out = s.bulk_stores() ? tma::rows_map(p.out, 16) : TensorMap{};
  launch(plan, site, in, out, band_args(p, plan, pass_taps(p, true, true)));
}

void launch_tile(const Separable& p, const Plan& plan, const Config& config, const Site& site) {
  const TileShape& shape = config.tile;
  const int pack = tma::pack_of(size_of(p.in.dtype));
  TensorMap map{};
  if (config.bulk) map = tma::plane_map(as_rows(p).in, shape.pitch / pack, shape.box_h, pack);
  launch(plan, site, tile_params(p, shape, config.bulk, pass_taps(p, true, true)), map);
}

void launch_ring(const Separable& p, const Plan& plan, const Config& config, const Site& site) {
  const RingShape& shape = config.ring;
  TensorMap map{};
  if (config.bulk) map = tma::plane_map(as_rows(p).in, shape.pitch(), kRingPiece);
  launch(plan, site, ring_params(p, plan, shape, pass_taps(p, true, true)), map);
}

void launch_strip(const Separable& p, const Plan& plan, const Config& config, const Site& site) {
  const StripParams params{
      .planes = PlaneGeometry::of(p.in, p.out),
      .pad_y = int(p.place.pad_y),
      .pad_x = int(p.place.pad_x),
      .kh = int(p.kh),
      .kw = int(p.kw),
      .channels = unsigned(p.out.c),
      .tiles_x = unsigned(ceil_div(p.out.w, plan.tile_w)),
      .tiles_y = unsigned(ceil_div(p.out.h, plan.tile_h)),
      .value = float(p.place.value),
      .border = p.place.border,
      .aligned_loads = rows_start_on(p.in, 16) && rows_start_on(p.beside, 16),
      .shape = config.strip,
      .taps = pass_taps(p, true, true),
      .beside = Neighbours::of(p.beside, p.in),
  };
  launch(plan, site, params);
}

// Tiles of `tile_rows` of `rows` rows.
GeneralParams general_params(const Separable& p, const GeneralTile& tile, int64_t rows, int64_t tile_rows,
                             const PassTaps& taps) {
  const Placement& at = p.place;
  return {
      .in = p.in,
      .out = p.out,
      .place = at,
      .kh = int(p.kh),
      .kw = int(p.kw),
      .tile = tile,
      .reuse_x = at.stride_x == at.dilation_x && tile.pixels % kReuse == 0,
      .reuse_y = at.stride_y == at.dilation_y,
      .tiles_x = unsigned(ceil_div(p.out.w, tile.pixels)),
      .tiles_y = unsigned(ceil_div(rows, tile_rows)),
      .channel_blocks = unsigned(ceil_div(p.out.c, tile.channels)),
      .taps = taps,
  };
}

void launch_shared(const Separable& p, const Plan& plan, const Config& config, const Site& site) {
  launch(plan, site, general_params(p, config.general, p.out.h, plan.tile_h, pass_taps(p, true, true)));
}

void launch_two_pass(const Separable& p, const Plan& plan, const Config& config, const Site& site) {
  const Threads threads{unsigned(plan.threads)};
  const GeneralParams rows = general_params(p, config.general, p.in.h + 1, kRowBlock, pass_taps(p, true, false));
  launch_kernel(*site.kernels[0], {config.row_blocks}, threads, plan.shared_bytes, site.stream, rows, site.scratch);
  const GeneralParams columns = general_params(p, config.general, p.out.h, plan.tile_h, pass_taps(p, false, true));
  launch_kernel(*site.kernels[1], {plan.blocks}, threads, 0, site.stream, columns, site.scratch);
}

}  // namespace

Plan plan_cuda(const Separable& p, const Arch& arch, const char* variant) { return plan(p, arch, variant); }

void run_cuda(const Separable& p, const Plan& plan, const Site& site) {
  if (plan.blocks == 0) return;  // no output: there is no tensor map of nothing, and rows need no first pass
  const Config& config = *std::any_cast<Config>(&plan.config);
  switch (config.variant) {
    case Variant::products: return launch_products(p, plan, site);
    case Variant::tile: return launch_tile(p, plan, config, site);
    case Variant::ring: return launch_ring(p, plan, config, site);
    case Variant::strip: return launch_strip(p, plan, config, site);
    case Variant::shared: return launch_shared(p, plan, config, site);
    case Variant::two_pass: return launch_two_pass(p, plan, config, site);
  }
}

}  // namespace torch_conv::separable2d
