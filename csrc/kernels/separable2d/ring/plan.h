// RING and RING_UNALIGNED: the problems that they serve. Pure.
#pragma once

#include "core/refusals.h"
#include "kernels/separable2d/ring/params.h"
#include "kernels/separable2d/shared/hwc.h"
#include "kernels/separable2d/shared/ring_steps.h"

namespace torch_conv::separable2d {

void launch_ring(const Separable& p, const Plan& plan, const Site& site);

inline RingPolicy ring_policy(const Separable& p, bool bulk) {
  const auto in_parameters = [&](const Taps& taps) {
    return taps.on_host && (p.out.n - 1) * taps.stride_n + (p.out.c - 1) * taps.stride_c == 0;
  };
  const int pixel = hwc_channels(p);
  // Boxes of bulk copies start on 32 bytes.
  const int skew = bulk ? int(round_up(p.place.pad_x * pixel, 8) - p.place.pad_x * pixel) : 0;
  return {int(p.kh), int(p.kw), skew, pixel, in_parameters(p.taps_x) && in_parameters(p.taps_y), bulk};
}

inline const char* ring_unaligned_refusal(const Separable& p, const Arch& arch) {
  if (p.in.dtype != Dtype::f32) return "no float32";
  if (!arch.bulk_copy) return "no bulk copies";  // the barriers of core/cuda/tma.cuh come with them
  if (const char* no = planar_refusal(as_rows(p))) return no;
  if (p.kh > 256 || p.kw > 256) return "more than 256 taps";  // keeps `bytes` an int
  return ring_policy(p, false).bytes() <= arch.shared_bytes ? nullptr : "a window beyond shared memory";
}

inline const char* ring_refusal(const Separable& p, const Arch& arch) {
  if (const char* no = ring_unaligned_refusal(p, arch)) return no;
  if (const char* no = plane_copy_refusal(as_rows(p).in, arch)) return no;
  const RingPolicy s = ring_policy(p, true);
  if (s.pitch() > 256) return "boxes of more than 256 columns";
  return s.bytes() <= arch.shared_bytes / 2 ? nullptr : "a window beyond shared memory";
}

inline void configure_ring(const Separable& p, bool bulk, const Arch& arch, Plan& plan) {
  const Separable rows = as_rows(p);
  const RingPolicy s = ring_policy(p, bulk);
  const int steps = ring_steps(rows, s.pixel, s.bytes(), arch);
  plan.why = bulk ? "stride 1: boxes by bulk copies, row results in a ring, streaming down"
                  : "stride 1: boxes by words, row results in a ring, streaming down";
  plan.tile_w = s.width() / s.pixel;
  plan.tile_h = steps * kRingRows;
  plan.threads = s.threads();
  plan.shared_bytes = s.bytes();
  plan.blocks = ring_blocks(rows, s.pixel, steps);
  plan.kernels = {kernel_of("kernels/separable2d/ring/kernel.cuh", "separable2d::separable_ring",
                            {{"separable2d::RingPolicy", {s.kh, s.kw, s.skew, s.pixel, s.inline_taps, s.bulk}}})};
  plan.config = s;
}
inline void configure_ring_bulk(const Separable& p, const Arch& arch, Plan& plan) {
  configure_ring(p, true, arch, plan);
}
inline void configure_ring_unaligned(const Separable& p, const Arch& arch, Plan& plan) {
  configure_ring(p, false, arch, plan);
}

inline RingParams ring_params(const Separable& p, const Plan& plan, const RingPolicy& shape, const PassTaps& taps) {
  const Separable rows = as_rows(p);
  const Image& out = rows.out;
  return {.planes = PlaneGeometry::of(rows.in, out),
          .pad_y = int(p.place.pad_y),
          .pad_x = int(rows.place.pad_x),
          .steps = plan.tile_h / kRingRows,
          .order = TileOrder::of(ceil_div(out.w, shape.width()), ceil_div(out.h, plan.tile_h), out.c),
          .value = float(p.place.value),
          .border = p.place.border,
          .zero_fill = p.place.border == Border::constant && p.place.value == 0,
          .taps = taps,
          .peers = PeerRows::of(rows.peers, rows.in)};
}

}  // namespace torch_conv::separable2d
