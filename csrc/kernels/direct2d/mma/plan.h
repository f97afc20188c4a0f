// The images that `mma` serves, its plan, and its kernel's arguments.
#pragma once

#include "kernels/direct2d/config.h"
#include "kernels/direct2d/mma/params.h"

namespace torch_conv::direct2d {

void launch_mma(const Direct& p, const Plan& plan, const Site& site);

// Interleaved channels that one block computes: the channels of an HWC image, or one with a bias, which belongs to a
// plane.
inline int64_t mma_channels(const Direct& p) {
  return p.groups == p.in.c && !p.bias ? hwc_channels(p.in, p.out, p.peers) : 1;
}

inline MmaShape mma_shape(const Direct& p) {
  const int channels = int(mma_channels(p));
  return mma_shape(int(p.kh), int(p.kw), channels, p.taps.stride_c == 0 ? 1 : channels);
}

// The values of MmaPolicy::channels and ::windows.
inline bool mma_bulk(const Direct& p) { return tma::vectors_possible(as_rows(p.in, mma_channels(p))); }
inline bool mma_aligned(const Direct& p) { return aligned_rows(as_rows(p.out, mma_channels(p))); }

inline const char* mma_refusal(const Direct& p, const Arch& arch) {
  if (!is_half(p.in.dtype)) return "no float16 or bfloat16";
  if (p.sums == Sums::chain) return "one chain of multiply-adds is asked for";
  if (p.kh > kMmaMost || p.kw > kMmaMost) return "a window beyond 31x31";
  const int64_t channels = mma_channels(p);
  if (const char* no = planar_refusal(p, channels)) return no;
  if (!below(kMostSide, {p.in.w * channels * size_of(p.in.dtype)})) return "rows of 2^30 bytes";
  if (!arch.bulk_copy) return "no bulk copies";
  const bool fits = mma_shape(p).shared_bytes(!mma_aligned(p)) <= arch.shared_bytes;
  return fits ? nullptr : "not enough shared memory";
}

// The value of MmaPolicy::odd. Shifted matrices of taps serve odd columns where a window's spans hold them.
inline bool mma_odd(const Direct& p) { return mma_bulk(p) && p.place.pad_x % 2 != 0 && !mma_shape(p).shifts(); }

// Tiles of a row. The last one ends at the image's edge or behind it.
inline int64_t mma_across(const Direct& p) {
  const MmaShape s = mma_shape(p);
  const int step = s.step(!mma_aligned(p));
  return tiles_across(p.out.w, step, s.width() - step);
}

inline void configure_mma(const Direct& p, const Arch&, Plan& plan) {
  const MmaShape s = mma_shape(p);
  plan.algorithm = "tensor_core";
  plan.why = "half precision, window up to 31x31: tensor cores, sums in another order than 'direct'";
  plan.tile_w = s.step(!mma_aligned(p));
  plan.tile_h = s.height;
  plan.threads = 32 * s.warps();
  plan.shared_bytes = s.shared_bytes(!mma_aligned(p));
  plan.blocks = p.out.n * (p.out.c / s.channels) * ceil_div(p.out.h, plan.tile_h) * mma_across(p);
  plan.kernels = {
      kernel_of("kernels/direct2d/mma/kernel.cuh", "direct2d::direct2d_mma",
                {p.in.dtype,
                 {"direct2d::MmaPolicy",
                  {s.kh, s.kw, s.channels, s.windows, mma_bulk(p), mma_aligned(p), mma_odd(p), p.taps.narrow}}})};
}

inline MmaArgs mma_args(const Direct& p, const Plan& plan) {
  return {.planes = PlaneGeometry::of(p.in, p.out),
          .order = TileOrder::of(mma_across(p), ceil_div(p.out.h, plan.tile_h), p.out.c / mma_channels(p)),
          .multiplier = FastDivisor::of(unsigned(p.out.c / p.groups)),
          .pad_y = int(p.place.pad_y),
          .pad_x = int(p.place.pad_x),
          .border = p.place.border,
          .value = float(p.place.value),
          .taps_n = p.taps.stride_n,
          .taps_c = p.taps.stride_c,
          .bias = static_cast<const float*>(p.bias),
          .peers = PeerRows::of(p.peers, p.in)};
}

}  // namespace torch_conv::direct2d
