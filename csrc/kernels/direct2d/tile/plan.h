// The images that TILE's four variants serve, the images that its kernels see, and their plans. All four launch one
// kernel: kernel.cuh loads boxes and chooses the sums, sums.cuh has the sums of a lane.
//
//     variant      images                                        box by             sums
//     tile         planes; interleaved channels of one window    copies of threads  sum_unrolled, sum_in_groups
//     tile_tma     the same, of aligned rows                     one bulk copy      sum_unrolled, sum_in_groups
//     tile_own     2 to 4 interleaved channels, a window each    either             sum_pixels, sum_channels
//     tile_groups  many interleaved channels, by groups          one bulk copy      as tile_tma; sum_words
#pragma once

#include "kernels/direct2d/config.h"
#include "kernels/direct2d/tile/params.h"

namespace torch_conv::direct2d {

struct TileKind {
  bool bulk = false;        // boxes by bulk copies
  int group = 0;            // channels of a group that is an image of its own, or 0
  int channel_windows = 0;  // see PlaneWindow
};

struct TileConfig {
  TileKind kind;
  int lead, overlap;  // arguments of plane_args
};

void launch_tile(const Direct& p, const Plan& plan, const Site& site);

inline PlaneWindow tile_window(const Direct& flat, const TileKind& kind) {
  const Placement& s = flat.place;
  return {int(flat.kh),
          int(flat.kw),
          int(s.dilation_y),
          int(s.dilation_x),
          int(s.stride_x),
          kind.channel_windows,
          kind.channel_windows && kind.group};
}

// Columns that the grid of tiles starts left of the output: bulk copies start on 16 bytes.
inline int lead_columns(const Direct& flat) {
  return tma::lead_columns(tile_window(flat, {}).left(), flat.place.pad_x, 16 / size_of(flat.in.dtype));
}

// True if rows of outputs leave as vectors of 16 bytes. A lane then owns neighbouring columns: for unaligned 4-byte
// values its loads cost more than the vectors save. With a window for each channel, rows of a box without bulk copies
// would have to leave their phase.
inline bool stores_aligned(const Direct& flat, const TileKind& kind) {
  const bool narrow = size_of(flat.in.dtype) < 4 && !kind.channel_windows;
  return aligned_rows(flat.out) && (kind.bulk ? lead_columns(flat) == 0 : narrow);
}

inline PlaneTileShape tile_shape(const Direct& flat, const TileKind& kind) {
  return tile_shape(size_of(flat.in.dtype), size_of(flat.out.dtype), tile_window(flat, kind), kind.bulk,
                    stores_aligned(flat, kind));
}

inline const char* tile_refusal(const Direct& q, const Arch& arch, const TileKind& kind) {
  if (q.kh > kTileMost || q.kw > kTileMost) return "a window beyond 31x31";
  const Placement& s = q.place;
  if (q.in.dtype == Dtype::f64 || q.out.dtype == Dtype::f64) return "float64";
  if (s.stride_y != s.stride_x || s.stride_x > 2) return "a stride other than 1x1 and 2x2";
  if (kind.bulk && s.stride_x > 1 && lead_columns(q) > 0) return "strided windows that start off 16 bytes";
  const int64_t halo_rows = s.dilation_y * (q.kh - 1), halo_values = s.dilation_x * (q.kw - 1);
  if (halo_rows >= kMostHaloRows || halo_values >= kMostHaloValues) return "taps too far apart";
  if (const char* no = rows_refusal(q.in, q.out, s, q.peers)) return no;
  if (!below(kMostSide, {q.in.w * size_of(q.in.dtype)})) return "rows of 2^30 bytes";
  if (q.in.c != q.groups) return "sums over channels";
  const PlaneWindow w = tile_window(q, kind);
  const int columns = w.left() + w.right() + 1;
  // With negative padding the first window starts `inside` columns within the image. No window covers the columns
  // before.
  const int64_t inside = std::max<int64_t>(0, -s.pad_x);
  const bool touches = near(q.in.h, (q.out.h - 1) * w.stride + 1, w.rows(), s.pad_y) &&
                       near(q.in.w - inside, (q.out.w - 1) * w.stride + 1, columns, s.pad_x + inside);
  if (!touches) return "windows that lie outside the image altogether";
  const PlaneTileShape shape = tile_shape(q, kind);
  if (!kind.channel_windows && shape.lane_values * size_of(q.out.dtype) < 4) return "lanes that make less than a word";
  const int barrier = kind.bulk ? kBarrierBytes : 0;
  const int bytes = shape.shared_bytes(size_of(q.in.dtype), size_of(q.out.dtype), w) + barrier;
  const bool fits = bytes <= arch.shared_bytes;
  return fits ? nullptr : "a tile beyond shared memory";
}

// A bulk copy's box has at most 256 words a side.
inline const char* tile_bulk_refusal(const Direct& q, const Arch& arch, const TileKind& kind) {
  if (const char* no = tile_refusal(q, arch, kind)) return no;
  if (const char* no = plane_copy_refusal(q.in, arch)) return no;
  const PlaneTileShape shape = tile_shape(q, kind);
  const int rows = shape.box_rows(tile_window(q, kind));
  return shape.columns() <= 256 * tma::pack_of(size_of(q.in.dtype)) && rows <= 256 ? nullptr : "a box beyond 256 words";
}

inline const char* tile_tma_refusal(const Direct& p, const Arch& arch) {
  return tile_bulk_refusal(flattened(p), arch, {.bulk = true});
}

inline const char* tile_plain_refusal(const Direct& p, const Arch& arch) {
  return tile_refusal(flattened(p), arch, {});
}

// Interleaved channels that may have a window each, without groups.
constexpr int64_t kMostChannelWindows = 4;

inline TileKind tile_own_kind(const Direct& p, const Arch& arch) {
  TileKind kind{.bulk = true, .channel_windows = int(p.in.c)};
  kind.bulk = !tile_bulk_refusal(flatten_channels(p, p.in.c), arch, kind);
  return kind;
}

inline const char* tile_own_refusal(const Direct& p, const Arch& arch) {
  if (!channels_as_columns(p) || p.taps.stride_c == 0 || p.in.c > kMostChannelWindows)
    return "no 2 to 4 interleaved channels that have a window each";
  const PlaneWindow w{int(p.kh), int(p.kw), 1, 1, 1, int(p.in.c)};
  if (by_channels(size_of(p.in.dtype), w) && p.in.dtype != p.out.dtype) return "another output dtype";
  return tile_refusal(flatten_channels(p, p.in.c), arch, tile_own_kind(p, arch));
}

// Channels of a group: 16 to 128 bytes of every pixel, or 0. A group's halo is at most half as large as a tile. The
// halo of the smallest group may be as large as a tile. tuning.h has the measurements.
inline int channel_group(const Direct& p) {
  const auto together = [](const Image& x) { return x.stride_c == 1 && x.stride_w >= x.c; };
  const int in = size_of(p.in.dtype), out = size_of(p.out.dtype);
  const bool window_each = p.taps.stride_c != 0;
  const bool alike = p.in.c == p.out.c && p.groups == p.in.c && !p.bias && !p.peers.any();
  if (!alike || !together(p.in) || !together(p.out) || in > 4 || out > 4) return 0;
  if (!p.place.unit_steps_of_images() || p.kh > kTileMost || p.kw > kTileMost || p.kw < 2) return 0;
  if (window_each && (p.in.dtype != p.out.dtype || p.kh * p.kw * 4 / in > kTapsAtOnce)) return 0;
  const PlaneWindow w{int(p.kh), int(p.kw), 1, 1, 1, window_each, window_each};
  // Half a sector of 32 bytes: only with a window for each channel, of narrow values or more than 9 taps.
  const bool halves = window_each && (in < 4 || p.kh * p.kw > 9);
  const int tile = 32 * lane_values(in, out, w), least = std::max((halves ? 16 : 32) / in, 16 / out);
  // Lanes with a window for each channel share values of neighbouring pixels where a group is 128 bytes: narrow values
  // take a larger halo for it (16x64x224x224 5x5, without and with: float16 135 us, 126; float32 130, 142).
  for (int group = 128 / in; group >= least; group /= 2)
    if (p.in.c % group == 0 && (window_each && in < 4 ? 1 : 2) * (p.kw - 1) * group <= tile) return group;
  return p.in.c % least == 0 && (p.kw - 1) * least <= tile ? least : 0;
}

inline Direct tile_image(const Direct& p, const TileKind& kind) {
  return kind.group             ? flatten_channels(p, kind.group)
         : kind.channel_windows ? flatten_channels(p, kind.channel_windows)
                                : flattened(p);
}

inline TileKind tile_groups_kind(const Direct& p, int group) {
  return {.bulk = true, .group = group, .channel_windows = p.taps.stride_c != 0 ? group : 0};
}

inline const char* tile_groups_refusal(const Direct& p, const Arch& arch) {
  const int group = channel_group(p);
  if (group == 0) return "no groups of interleaved channels, or windows beyond a lane's registers";
  if (!arch.bulk_copy) return "no bulk copies";
  if (!tma::channels_possible(p.in) || !tma::channels_possible(p.out)) return "pixels not 16-byte aligned";
  const Direct q = flatten_channels(p, group);
  const TileKind kind = tile_groups_kind(p, group);
  if (const char* no = tile_refusal(q, arch, kind)) return no;
  if (!stores_aligned(q, kind)) return "outputs of a group that are no vectors of 16 bytes";
  if (!below(kMostSide, {p.in.w * p.in.stride_w, p.out.w * p.out.stride_w})) return "rows of 2^30 values";
  const bool box = tile_shape(q, kind).box_rows(tile_window(q, kind)) <= 256;
  return box ? nullptr : "a box beyond 256 rows";
}

inline void configure_tile(const Direct& p, const TileKind& kind, Plan& plan) {
  const Direct q = tile_image(p, kind);
  const PlaneWindow w = tile_window(q, kind);
  const PlaneTileShape shape = tile_shape(q, kind);
  const int lead = kind.bulk ? lead_columns(q) : 0;
  plan.why = kind.group             ? "many interleaved channels: groups of them are images of their own"
             : kind.channel_windows ? "a window for each of a few interleaved channels: all lanes use the same taps"
             : kind.bulk            ? "window up to 31x31: one bulk copy brings tile and halo"
                         : "window up to 31x31, copies of words: no bulk copies, or rows not 16-byte aligned";
  plan.tile_w = shape.width();
  plan.tile_h = shape.height();
  plan.threads = 32 * PlaneTileShape::warps;
  plan.shared_bytes = shape.shared_bytes(size_of(q.in.dtype), size_of(q.out.dtype), w);
  plan.blocks =
      q.out.n * q.out.c * ceil_div(q.out.h, plan.tile_h) * tiles_across(q.out.w + lead, plan.tile_w, shape.overlap);
  plan.kernels = {kernel_of("kernels/direct2d/tile/kernel.cuh", "direct2d::direct2d_tile",
                            {q.in.dtype,
                             q.out.dtype,
                             {"direct2d::TilePolicy",
                              {w.kh, w.kw, w.dilation_y, w.dilation_x, w.stride, kind.bulk, stores_aligned(q, kind),
                               q.bias != nullptr, kind.group > 0, kind.channel_windows}}})};
  plan.config = TileConfig{kind, lead, shape.overlap};
}
inline void configure_tile_tma(const Direct& p, const Arch&, Plan& plan) { configure_tile(p, {.bulk = true}, plan); }
inline void configure_tile_plain(const Direct& p, const Arch&, Plan& plan) { configure_tile(p, {}, plan); }
inline void configure_tile_groups(const Direct& p, const Arch&, Plan& plan) {
  configure_tile(p, tile_groups_kind(p, channel_group(p)), plan);
}
inline void configure_tile_own(const Direct& p, const Arch& arch, Plan& plan) {
  configure_tile(p, tile_own_kind(p, arch), plan);
}

}  // namespace torch_conv::direct2d
