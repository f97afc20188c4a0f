// The images that `channels` serves, and its plan.
#pragma once

#include "kernels/direct2d/channels/params.h"
#include "kernels/direct2d/config.h"

namespace torch_conv::direct2d {

// The distribution of an image's vectors over threads.
struct ChannelShape {
  int values = 0, rows = 0;        // channels of a vector, rows of a strip
  int64_t vectors = 0, group = 0;  // of a pixel: all, and the vectors of neighbouring threads
};

void launch_channels(const Direct& p, const Plan& plan, const Site& site);

// True if the channels of both images are interleaved, in aligned vectors of `values` channels.
inline bool vectors_of_channels(const Direct& p, int values) {
  const auto has_vectors = [&](const Image& x) {
    const int64_t size = size_of(x.dtype), bytes = values * size;
    const auto aligned = [&](int64_t stride, int64_t count) { return count == 1 || stride * size % bytes == 0; };
    return x.stride_c == 1 && x.stride_w >= x.c && reinterpret_cast<uintptr_t>(x.data) % bytes == 0 &&
           aligned(x.stride_w, x.w) && aligned(x.stride_h, x.h) && aligned(x.stride_n, x.n);
  };
  return p.in.c % values == 0 && has_vectors(p.in) && has_vectors(p.out);
}

// Channels of a vector: as many as leave registers for taps and sums. Half precision has 16 bytes at 3x3 with one
// window for all channels. One channel serves unaligned channels, and windows beyond 5x5 for each channel.
inline int channel_values(const Direct& p) {
  const int64_t taps = p.kh * p.kw;
  const bool window_each = p.taps.stride_c != 0;
  if (taps <= 9 && !window_each && size_of(p.in.dtype) == 2 && vectors_of_channels(p, 8)) return 8;
  return (taps <= kChannelTaps || !window_each) && vectors_of_channels(p, 4) ? 4 : 1;
}

inline const char* channels_refusal(const Direct& p, const Arch&) {
  const Placement& s = p.place;
  if (p.in.dtype == Dtype::f64 || p.in.dtype != p.out.dtype) return "float64 or another output dtype";
  if (p.in.c != p.groups || p.in.c != p.out.c || p.bias || p.peers.any()) return "sums over channels, bias or shards";
  if (!s.unit_steps_of_images()) return "stride or dilation";
  if (s.border == Border::skip) return "border 'skip'";
  if (s.border == Border::constant && !holds(p.in.dtype, s.value)) return "no pixel holds the border's value";
  if (std::max(p.kh, p.kw) > 7) return "a window beyond 7x7";
  if (p.in.c == 1 || !vectors_of_channels(p, 1)) return "channels that do not lie side by side";
  const bool fits = below(kMostSide, {p.in.w * p.in.stride_w, p.out.w * p.out.stride_w, p.in.h, p.out.h});
  return fits ? nullptr : "rows of 2^30 values";
}

inline void configure_channels(const Direct& p, const Arch& arch, Plan& plan) {
  ChannelShape s{.values = channel_values(p), .rows = kChannelRows};
  s.vectors = p.out.c / s.values;
  s.group = s.vectors % kChannelVectors == 0 ? kChannelVectors : s.vectors;
  const int64_t row_blocks = ceil_div(p.out.w * s.vectors, kChannelThreads);
  // Long strips read fewer halos. Small images take shorter strips, which fill the multiprocessors.
  while (s.rows > 8 && p.out.n * row_blocks * ceil_div(p.out.h, s.rows) < 16 * arch.multiprocessors) s.rows /= 2;
  plan.why = "interleaved channels: a thread owns a vector of channels and streams down";
  plan.tile_w = kChannelThreads;
  plan.tile_h = s.rows;
  plan.threads = kChannelThreads;
  plan.blocks = p.out.n * row_blocks * ceil_div(p.out.h, s.rows);
  plan.kernels = {kernel_of("kernels/direct2d/channels/kernel.cuh", "direct2d::direct2d_channels",
                            {p.in.dtype, int(p.kh), int(p.kw), s.values, p.taps.stride_c != 0})};
  plan.config = s;
}

}  // namespace torch_conv::direct2d
