// TILE and TILE_TMA: which problems they serve, and with which tile. Pure.
#pragma once

#include "core/refusals.h"
#include "kernels/separable2d/shared/hwc.h"
#include "kernels/separable2d/tile/params.h"

namespace torch_conv::separable2d {

void launch_tile(const Separable& p, const Plan& plan, const Site& site);

inline const char* tile_refusal(const Separable& p, const Arch&) {
  if (p.kh != p.kw || p.kh < 3 || p.kh > kTileMost || p.kh % 2 == 0) return "no k x k window, k odd, 3 to 15";
  return planar_refusal(as_rows(p));
}

inline const char* tile_tma_refusal(const Separable& p, const Arch& arch) {
  const char* no = plane_copy_refusal(as_rows(p).in, arch);
  return no ? no : tile_refusal(p, arch);
}

// Boxes start on 32 bytes, or on 16 where tiles overlap by as many.
inline int lead_columns(const Separable& rows, const TileShape& s) {
  if (!rows_start_on(rows.in, 16)) return 0;  // loads of words start anywhere
  return tma::lead_columns(s.halo / 2, rows.place.pad_x, 32 / size_of(rows.in.dtype));
}

// The tile for rows of numbers, `channels` of them a pixel.
inline TileShape tile_shape(const Separable& rows, int channels) {
  const int bytes = size_of(rows.in.dtype), k = int(rows.kw);
  const TileShape s = tile_shape(bytes, k, channels, true);
  const bool aligned = rows.out.w % s.columns == 0 && lead_columns(rows, s) % s.columns == 0 &&
                       rows_start_on(rows.out, s.columns * bytes);
  return aligned ? s : tile_shape(bytes, k, channels, false);
}

inline TileOrder tile_order(const Separable& rows, const TileShape& s) {
  const Image& out = rows.out;
  return TileOrder::of(tiles_across(out.w + lead_columns(rows, s), s.w(), s.overlap), ceil_div(out.h, s.h()), out.c);
}

inline int64_t tile_blocks(const Separable& rows, const TileShape& s) {
  const TileOrder order = tile_order(rows, s);
  return rows.out.n * rows.out.c * order.tiles_x * order.tiles_y;
}

struct TileConfig {
  TileShape shape;
  bool bulk;  // boxes by bulk copies
};

inline void configure_tile(const Separable& p, bool bulk, Plan& plan) {
  const Separable rows = as_rows(p);
  const int channels = hwc_channels(p);
  const TileShape s = tile_shape(rows, channels);
  plan.why = bulk ? "odd size up to 15, boxes by bulk copies" : "odd size up to 15, boxes by loads";
  plan.tile_w = s.w() / channels;
  plan.tile_h = s.h();
  plan.threads = 32 * kTileWarps;
  plan.shared_bytes = s.shared_bytes(size_of(p.in.dtype));
  plan.blocks = tile_blocks(rows, s);
  plan.kernels = {kernel_of("kernels/separable2d/tile/kernel.cuh", "separable2d::separable_tile",
                            {p.in.dtype, int(p.kw), channels, s.overlap == 0})};
  plan.config = TileConfig{s, bulk};
}
inline void configure_tile_tma(const Separable& p, const Arch&, Plan& plan) { configure_tile(p, true, plan); }
inline void configure_tile_plain(const Separable& p, const Arch&, Plan& plan) { configure_tile(p, false, plan); }

inline TileParams tile_params(const Separable& p, const TileShape& s, bool bulk, const PassTaps& taps) {
  const Separable rows = as_rows(p);
  return {.planes = PlaneGeometry::of(rows.in, rows.out),
          .pad_y = int(p.place.pad_y),
          .pad_x = int(rows.place.pad_x),
          .lead = lead_columns(rows, s),
          .order = tile_order(rows, s),
          .value = float(p.place.value),
          .border = p.place.border,
          .bulk = bulk,
          .zero_fill = p.place.border == Border::constant && p.place.value == 0,
          .aligned_loads = rows_start_on(rows.in, 16),
          .taps = taps,
          .peers = PeerRows::of(rows.peers, rows.in)};
}

}  // namespace torch_conv::separable2d
