// TYPED_RING: the problems that it serves, and the height of strips. Pure.
#pragma once

#include "core/refusals.h"
#include "kernels/separable2d/shared/hwc.h"
#include "kernels/separable2d/typed_ring/params.h"

namespace torch_conv::separable2d {

void launch_typed_ring(const Separable& p, const Plan& plan, const Site& site);

// Without steps. Boxes start on 32 bytes.
inline TypedTile typed_tile(const Separable& p) {
  const int pixel = hwc_channels(p), quad = 16 / size_of(p.in.dtype);
  const int skew = int(round_up(p.place.pad_x * pixel, 2 * quad) - p.place.pad_x * pixel);
  TypedTile t{.pixel = pixel, .kh = int(p.kh), .kw = int(p.kw), .skew = skew};
  t.pitch = int(ceil_div(skew + typed_width(pixel) + (t.kw - 1) * pixel, quad) | 1) * quad;
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

inline int64_t typed_ring_blocks(const Separable& rows, const TypedTile& t, int steps) {
  const Image& out = rows.out;
  return out.n * out.c * ceil_div(out.w, typed_width(t.pixel)) * ceil_div(out.h, steps * kTypedRows);
}

// Steps of a strip. Long strips repeat few row passes; short ones leave no multiprocessor idle. The function minimises
// the rounds of resident blocks times the cost of a strip, in multiply-adds. Not measured for this kernel: the numbers
// are those of RING.
inline int typed_steps(const Separable& rows, const TypedTile& t, const Arch& arch) {
  const int64_t fitting = arch.shared_bytes / (typed_bytes(rows, t) + 1024);
  const int64_t resident =
      arch.multiprocessors * std::max<int64_t>(1, std::min<int64_t>(typed_blocks(t.pixel), fitting));
  const int most = int(std::min<int64_t>(32 * std::max(t.fill(), 1), ceil_div(rows.out.h, kTypedRows)));
  int best = 1;
  int64_t least = INT64_MAX;
  for (int steps = 1; steps <= most; ++steps) {
    const int64_t rounds = ceil_div(typed_ring_blocks(rows, t, steps), resident);
    const int64_t halo = round_up(t.kh - 1, kTypedPiece);
    const int64_t cost = rounds * (steps * kTypedRows * (t.kw + t.kh + 20) + halo * (t.kw + 10));
    if (cost <= least) least = cost, best = steps;
  }
  return best;
}

inline void configure_typed_ring(const Separable& p, const Arch& arch, Plan& plan) {
  const Separable rows = as_rows(p);
  TypedTile t = typed_tile(p);
  t.steps = typed_steps(rows, t, arch);
  plan.why = "any window: boxes of narrow elements by bulk copies, row results in a ring, streaming down";
  plan.tile_w = typed_width(t.pixel) / t.pixel;
  plan.tile_h = t.steps * kTypedRows;
  plan.threads = typed_threads(t.pixel);
  plan.shared_bytes = typed_bytes(p, t);
  plan.blocks = typed_ring_blocks(rows, t, t.steps);
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
      .order = TileOrder::of(ceil_div(out.w, typed_width(tile.pixel)), ceil_div(out.h, tile.steps * kTypedRows), out.c),
      .value = float(p.place.value),
      .border = p.place.border,
      .zero_fill = p.place.border == Border::constant && p.place.value == 0,
      .taps = taps,
      .peers = PeerRows::of(rows.peers, rows.in)};
}

}  // namespace torch_conv::separable2d
