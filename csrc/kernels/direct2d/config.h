// Helpers of the plans and launches of all variants.
#pragma once

#include "core/refusals.h"
#include "kernels/direct2d/shared/planes.h"

namespace torch_conv::direct2d {

inline bool other_shards_fit(const Direct& p) { return !p.peers.any() || p.peers.same_columns(p.in); }

// True if interleaved channels can be columns. Rows then hold w * c values, and taps are c values apart. Shards keep
// their channels.
inline bool channels_as_columns(const Direct& p) {
  return interleaved_channels(p.in, p.out) > 1 && p.groups == p.in.c && !p.bias && p.place.stride_x == 1 &&
         !p.peers.any();
}

// Interleaved channels that share one window. Windows of samples may differ.
inline int64_t flat_channels(const Direct& p) { return channels_as_columns(p) && p.taps.stride_c == 0 ? p.in.c : 1; }

// The problem `p` with `channels` interleaved channels as columns. Groups of as many channels become images.
inline Direct flatten_channels(const Direct& p, int64_t channels) {
  Direct q = p;
  if (channels == 1) return q;
  q.in.w *= channels, q.out.w *= channels;
  q.place.pad_x *= channels, q.place.dilation_x *= channels;
  q.in.c = q.out.c = q.groups = p.in.c / channels;
  q.in.stride_c = q.out.stride_c = channels;
  q.in.stride_w = q.out.stride_w = 1;
  return q;
}

inline Direct flattened(const Direct& p) { return flatten_channels(p, flat_channels(p)); }

// `flat`: the problem `p` with channels as columns. `lead`: columns that the grid of tiles starts left of the output.
// `overlap`: columns that two neighbouring tiles both compute.
inline PlaneArgs plane_args(const Direct& p, const Direct& flat, const Plan& plan, int lead = 0, int overlap = 0) {
  const Placement& s = flat.place;
  return {.planes = PlaneGeometry::of(flat.in, flat.out),
          .order = TileOrder::of(tiles_across(flat.out.w + lead, plan.tile_w, overlap),
                                 ceil_div(flat.out.h, plan.tile_h), flat.out.c),
          .lead = lead,
          .multiplier = unsigned(flat.out.c / flat.groups),
          .shift_y = int(middle_of(int(flat.kh)) * s.dilation_y - s.pad_y),
          .shift_x = int(middle_of(int(flat.kw)) * s.dilation_x - s.pad_x),
          .channels = int(p.in.c / flat.in.c),
          .in_pixel = int(p.in.stride_w),
          .out_pixel = int(p.out.stride_w),
          .border = s.border,
          .value = float(s.value),
          .taps_n = flat.taps.stride_n,
          .taps_c = flat.taps.stride_c,
          .bias = static_cast<const float*>(flat.bias),
          .peers = PeerRows::of(flat.peers, flat.in)};
}

}  // namespace torch_conv::direct2d
