// TYPED_RING: the problems that it serves. Pure.
#pragma once

#include "core/refusals.h"
#include "kernels/separable2d/shared/hwc.h"
#include "kernels/separable2d/shared/ring_steps.h"
#include "kernels/separable2d/typed_ring/params.h"

namespace torch_conv::separable2d {

void launch_typed_ring(const Separable& p, const Plan& plan, const Site& site);

// Without steps. Boxes start on 32 bytes.
inline TypedTile typed_tile(const Separable& p) {
  const int pixel = hwc_channels(p), quad = 16 / size_of(p.in.dtype);
  const int skew = int(round_up(p.place.pad_x * pixel, 2 * quad) - p.place.pad_x * pixel);
  TypedTile t{.pixel = pixel, .kh = int(p.kh), .kw = int(p.kw), .skew = skew};
  t.pitch = int(ceil_div(skew + ring_width(pixel) + (t.kw - 1) * pixel, quad) | 1) * quad;
  return t;
}

inline int typed_bytes(const Separable& p, const TypedTile& t) { return t.bytes(size_of(p.in.dtype)); }

inline const char* typed_ring_refusal(const Separable& p, const Arch& arch) {
  if (p.in.dtype == Dtype::f32 || p.in.dtype == Dtype::f64) return "float32 or float64";
  if (!p.place.unit_steps_of_images()) return "stride or dilation";
  const Separable rows = as_rows(p);
  if (const char* no = rows_refusal(rows.in, rows.out, rows.place, rows.peers)) return no;
  if (const char* no = plane_copy_refusal(rows.in, arch)) return no;
  if (p.kh > 256 || p.kw > 256) return "more than 256 taps";  // keeps the bytes an int
  const TypedTile t = typed_tile(p);
  if (t.pitch > 256 * tma::pack_of(size_of(p.in.dtype))) return "boxes of more than 256 words";
  return typed_bytes(p, t) <= arch.shared_bytes / 2 ? nullptr : "a window beyond shared memory";
}

inline void configure_typed_ring(const Separable& p, const Arch& arch, Plan& plan) {
  const Separable rows = as_rows(p);
  TypedTile t = typed_tile(p);
  t.steps = ring_steps(rows, t.pixel, typed_bytes(p, t), arch);
  plan.why = "any window: boxes of narrow elements by bulk copies, row results in a ring, streaming down";
  plan.tile_w = ring_width(t.pixel) / t.pixel;
  plan.tile_h = t.steps * kRingRows;
  plan.threads = ring_threads(t.pixel);
  plan.shared_bytes = typed_bytes(p, t);
  plan.blocks = ring_blocks(rows, t.pixel, t.steps);
  plan.kernels = {kernel_of("kernels/separable2d/typed_ring/kernel.cuh", "separable2d::separable_typed_ring",
                            {p.in.dtype, t.pixel})};
  plan.config = t;
}

inline TypedParams typed_params(const Separable& p, const TypedTile& tile, const PassTaps& taps) {
  const Separable rows = as_rows(p);
  const Image& out = rows.out;
  return {
      .planes = PlaneGeometry::of(rows.in, out),
      .out_dtype = out.dtype,
      .pad_y = int(p.place.pad_y),
      .pad_x = int(rows.place.pad_x),
      .tile = tile,
      .order = TileOrder::of(ceil_div(out.w, ring_width(tile.pixel)), ceil_div(out.h, tile.steps * kRingRows), out.c),
      .value = float(p.place.value),
      .border = p.place.border,
      .zero_fill = p.place.border == Border::constant && p.place.value == 0,
      .taps = taps,
      .peers = PeerRows::of(rows.peers, rows.in)};
}

}  // namespace torch_conv::separable2d
