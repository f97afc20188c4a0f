// MMA: the problems that it serves, and the cut of rows into segments. Pure.
#pragma once

#include "core/refusals.h"
#include "kernels/separable2d/mma/params.h"
#include "kernels/separable2d/shared/hwc.h"

namespace torch_conv::separable2d {

void launch_mma(const Separable& p, const Plan& plan, const Site& site);

// Bulk copies load rows that start on 16 bytes. They store rows that are whole vectors of 16 bytes: they would write
// the rest of a word that a row ends in.
inline MmaPolicy band_shape(const Separable& p) {
  const Separable rows = as_rows(p);
  return band_shape(size_of(p.in.dtype), int(p.kh), int(p.kw), int(p.place.pad_x), hwc_channels(p),
                    tma::possible(rows.in), tma::possible(rows.out) && aligned_rows(rows.out));
}

inline const char* mma_refusal(const Separable& p, const Arch& arch) {
  if (!is_half(p.in.dtype) && p.in.dtype != Dtype::u8) return "no float16, bfloat16 or uint8";
  if (p.sums == Sums::chain) return "one chain of multiply-adds is asked for";
  if (p.kh > kBandMost || p.kw > kBandMost) return "a window beyond 63x63";
  const Separable rows = as_rows(p);
  if (const char* no = planar_refusal(rows.in, rows.out, rows.place, rows.peers)) return no;
  const bool touches = near(p.in.h, p.out.h, p.kh, p.place.pad_y) && near(p.in.w, p.out.w, p.kw, p.place.pad_x);
  if (!touches) return "windows that lie outside the image altogether";
  if (!arch.bulk_copy) return "no bulk copies";
  return band_shape(p).shared_bytes() <= arch.shared_bytes ? nullptr : "not enough shared memory";
}

inline int64_t band_blocks(const Separable& p, const MmaPolicy& s, int segment) {
  return p.out.n * (p.out.c / s.channels) * ceil_div(p.out.h, s.rows()) *
         ceil_div(p.out.w, int64_t(segment) * s.columns());
}

// Chunks of a segment: short ones load and multiply more before their first outputs, long ones end unevenly. One NVIDIA
// H200, us, float16 15x15 at 4096^2, 8192^2, 16x3x1080x1920, by 4: 28.3, 85.4, 133.6; 6: 29.1, 82.1, 125.1;
// 8: 25.4, 84.1, 124.7; 16: 31.0, 89.4, 129.9. 31x31 4: 34.0, 108.4, 170.4; 8: 30.7, 99.5, 156.9; 16: 36.7, 97.7,
// 158.7. Bytes 15x15 4: 26.9, 76.8, 117.9; 8: 28.0, 72.7, 112.4; 16: 39.6, 72.0, 121.3. Shorter where blocks are too
// few for the machine (not measured).
inline int band_segment(const Separable& p, const MmaPolicy& s, const Arch& arch) {
  const int64_t all = std::max<int64_t>(ceil_div(p.out.w, s.columns()), 1);
  int segment = int(ceil_div(all, ceil_div(all, 8)));
  while (segment > 1 && 2 * band_blocks(p, s, segment) <= int64_t(arch.multiprocessors) * s.min_blocks())
    segment = (segment + 1) / 2;
  return segment;
}

inline void configure_mma(const Separable& p, const Arch& arch, Plan& plan) {
  const MmaPolicy s = band_shape(p);
  const int segment = band_segment(p, s, arch);
  plan.algorithm = "tensor_core";
  plan.why =
      "half precision or bytes, window up to 63x63: products of matrices, sums in another order than 'separable'";
  plan.tile_w = segment * s.columns();
  plan.tile_h = s.rows();
  plan.threads = s.threads();
  plan.shared_bytes = s.shared_bytes();
  plan.blocks = band_blocks(p, s, segment);
  plan.kernels = {kernel_of(
      "kernels/separable2d/mma/kernel.cuh", "separable2d::separable_mma",
      {p.in.dtype,
       {"separable2d::MmaPolicy",
        {s.bytes, s.halves, s.tiles, s.early, s.first_sees_last, s.last_sees_first, s.loads, s.stores, s.channels}}})};
}

inline BandArgs band_args(const Separable& p, const Plan& plan, const PassTaps& taps) {
  const MmaPolicy s = band_shape(p);
  return {.planes = PlaneGeometry::of(p.in, p.out),
          .order = TileOrder::of(ceil_div(p.out.w, plan.tile_w), ceil_div(p.out.h, plan.tile_h), p.out.c / s.channels),
          .segment = plan.tile_w / s.columns(),
          .pad_y = int(p.place.pad_y),
          .pad_x = int(p.place.pad_x),
          .lead = s.tile() * (tiles_before(s.tile(), int(p.place.pad_x)) + s.early),
          .kh = int(p.kh),
          .kw = int(p.kw),
          .border = p.place.border,
          .value = float(p.place.value),
          .taps = taps,
          .peers = PeerRows::of(p.peers, p.in)};
}

}  // namespace torch_conv::separable2d
