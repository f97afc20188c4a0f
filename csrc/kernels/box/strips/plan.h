// STRIPS: sums of floats in the order of kernels/box/order.h, for contiguous rows. Pure.
#pragma once

#include <algorithm>
#include <climits>
#include <limits>

#include "core/refusals.h"
#include "kernels/box/shared/float_sums.h"
#include "kernels/box/strips/params.h"

namespace torch_conv::box {

void launch_strips(const Box& p, const Plan& plan, const Site& site);

struct StripShape {
  Above above;
  int number;  // kh, or the rows of a rest: the kernel's argument
  int stages, blocks, shift, lanes;
  int pixel;            // interleaved channels, 1: planes
  bool vectors;         // rows start on whole vectors of 4 elements
  int subtiles, pitch;  // as in StripArgs
  int64_t tile_w, tile_h;
  int shared_bytes;
};

// channels_in_rows of pixels narrower than a strip, of wider ones 0.
inline int pixel_of(const Box& p) {
  const int64_t channels = channels_in_rows(p);
  return channels < kStripColumns ? int(channels) : 0;
}

// Columns of the widest strip's outputs: strips start where lines of memory do, or pixels of several channels near it.
inline int64_t widest_strip(const Box& p, int pixel, int shift, int strip = kStripColumns) {
  const int64_t columns = std::min<int64_t>((strip - shift) / pixel, strip / pixel / 4 * 4) - (p.kw - 1);
  return pixel == 1 ? columns / 32 * 32 : columns / 8 * 8;
}

inline int64_t strip_bytes(const Box& p, const StripShape& s) {
  const int size = size_of(p.in.dtype);
  int64_t ring = 0;
  if (s.above == Above::ring || s.above == Above::reread) ring = s.blocks;
  if (s.above == Above::ring && s.number > 0) ring += s.blocks + 1;
  const bool several_tiles = s.pixel == 1 && s.subtiles > 1;
  const int warps = warps_have_parts(size, s.pixel) ? s.lanes / 32 : kColumnWarps;
  const int64_t rows = int64_t(s.stages) * kGroup * warps * warp_row_bytes(size, s.vectors, several_tiles);
  const int64_t raw = sums_in_place(size, s.pixel) ? 0 : rows;
  return int64_t(v_stages(size, s.pixel, s.stages)) * kStageBytes + kBarrierBytes + raw + ring * s.lanes * 16 +
         (several_tiles ? subtile_bytes(s.subtiles) : 0);
}

inline int64_t strip_blocks(const Box& p, const StripShape& s) {
  const int64_t items = (s.pixel > 1 ? p.out.n : p.out.n * p.out.c) * ceil_div(p.out.w, s.tile_w);
  return ceil_div(items, s.pixel > 1 ? 1 : s.subtiles) * ceil_div(p.out.h + group_phase(p), s.tile_h);
}

// The cut whose busiest multiprocessor has the least to do: batches of 8 rows, of which those that start a segment are
// cheaper, in strips whose halo is read twice.
inline void cut_strips(const Box& p, const Arch& arch, int columns, StripShape& s) {
  // Outputs of planes whose rows start anywhere are shifted by up to 3 columns in the strip, so that aligned vectors
  // can be stored: the last 32 columns are left free for that. (tile_w is a multiple of 32.)
  const int64_t free_columns = s.vectors || s.pixel > 1 ? columns : columns - 32;
  const int64_t rows = p.out.h + group_phase(p),
                widest = std::min(widest_strip(p, s.pixel, s.shift, columns), free_columns);
  const int64_t halo = p.kw - 1 + (s.pixel == 1 ? s.shift : 0);
  const int start = s.above == Above::chain ? 1 : s.above == Above::kept ? 2 : s.blocks + 1;
  double best = 0;
  const auto consider = [&](int64_t tile_w, int subtiles) {
    StripShape t = s;
    t.tile_w = tile_w, t.subtiles = subtiles, t.pitch = int(round_up(tile_w + halo, 4));
    const double share = double(t.subtiles) * t.pitch / kStripColumns;
    for (int64_t segments = 1; segments <= ceil_div(rows, kGroup); ++segments) {
      t.tile_h = round_up(ceil_div(rows, segments), kGroup);
      const int64_t waves = ceil_div(strip_blocks(p, t), arch.multiprocessors);
      if (segments > 1 && waves > 8) break;
      const double cost = double(waves) * (double(t.tile_h / kGroup) + 0.5 * start + 2) * (0.35 + 0.65 * share);
      if (best == 0 || cost < best) best = cost, s = t;
    }
  };
  const int64_t fewest = ceil_div(p.out.w, widest), step = s.pixel == 1 ? 32 : 8;
  for (int64_t tiles = fewest; tiles < fewest + 3; ++tiles)
    consider(std::min(p.out.w, round_up(ceil_div(p.out.w, tiles), step)), s.pixel);
  for (int subtiles = 2; s.pixel == 1 && subtiles <= kMostSubtiles; subtiles += subtiles < 8 ? 1 : subtiles / 4) {
    const int64_t most = (columns / subtiles / 4 * 4 - halo) / 8 * 8;
    if (most < 8) break;
    const int64_t tile_w = std::min(p.out.w, round_up(ceil_div(p.out.w, ceil_div(p.out.w, most)), 8));
    if (p.out.n * p.out.c * ceil_div(p.out.w, tile_w) >= subtiles) consider(tile_w, subtiles);
  }
  const int64_t elements = s.pixel > 1 ? s.shift + (s.tile_w + p.kw - 1) * s.pixel : s.subtiles * s.pitch;
  s.lanes = int(std::min<int64_t>(32 * kColumnWarps, round_up(ceil_div(elements, 4), 32)));
}

inline StripShape strip_shape(const Box& p, const Arch& arch) {
  StripShape s{.pixel = pixel_of(p)};
  const auto on_vectors = [&](const Image& x) { return rows_start_on(as_rows(x, s.pixel), 4 * size_of(x.dtype)); };
  s.vectors = on_vectors(p.in) && p.peers.all(on_vectors);
  s.shift = int((4 - p.place.pad_x * s.pixel % 4) % 4);
  const bool short_window = p.kh <= 2 * kGroup;
  s.above = one_chain(p.kh) ? Above::chain : short_window ? Above::kept : Above::ring;
  s.number = short_window ? int(p.kh) : int(rest_of(p.kh));
  s.blocks = short_window ? 0 : int(blocks_of(p.kh));
  // float32 8192^2 with reflect on one NVIDIA H200. 15x15: 4 stages, rows copied between the sums, 154 us; 3 stages,
  // all rows at once, 160. 2 / 3 / 4 stages: 31x31 174 / 174 / 178, 63x63 191 / 192 / 204 (rows that come early push
  // others out of L2).
  s.stages = short_window ? 4 : 2;
  const auto fits = [&] { return strip_bytes(p, s) <= arch.shared_bytes; };
  const StripShape wanted = s;
  // Windows whose rings do not fit for a whole strip get narrower strips, while a quarter of a strip is output.
  const auto is_wide = [&](int columns) {
    return columns >= kStripColumns / 2 && 4 * s.pixel * widest_strip(p, s.pixel, s.shift, columns) >= columns;
  };
  for (int columns = kStripColumns; columns == kStripColumns || is_wide(columns); columns -= 128) {
    s = wanted;
    cut_strips(p, arch, columns, s);
    while (!fits() && s.stages > 2) --s.stages;
    if (!fits() && s.above == Above::ring && s.number > 0) s.above = Above::reread, s.stages = 3;
    if (!fits()) s.stages = 2;
    if (fits()) break;
  }
  s.shared_bytes = int(std::min<int64_t>(strip_bytes(p, s), INT_MAX));
  return s;
}

inline const char* strips_refusal(const Box& p, const Arch& arch) {
  if (is_integer(p.in.dtype)) return kOnlyFloats;
  if (const char* no = size_refusal(p)) return no;
  const auto served = [](Dtype d) { return d == Dtype::f32 || is_half(d); };
  if (!served(p.in.dtype) || !served(p.out.dtype) || size_of(p.out.dtype) < size_of(p.in.dtype) ||
      (is_half(p.out.dtype) && p.out.dtype != p.in.dtype))
    return "it adds up 16- and 32-bit floats, for results of their dtype or float32";
  if (p.out.n * p.out.c * p.out.h * p.out.w == 0) return "nothing to compute";
  const int pixel = pixel_of(p);
  if (pixel == 0) return "neither the pixels of a row nor their channels are contiguous";
  if (!alike_in_shards(p, pixel)) return "shards of another layout";
  if (arch.major < 8) return "it needs asynchronous copies";
  if (p.kw > kStripColumns * 3 / 4 / pixel) return "windows this wide leave a strip few outputs";
  if (p.place.border == Border::constant && !holds(p.in.dtype, p.place.value))
    return "the constant outside is no number of the image's dtype";
  if (p.kh > 1024) return "windows this tall leave no shared memory";
  if (std::max(p.in.w, p.out.w) * pixel > INT_MAX / 4) return "the image is too wide";
  if (!near(p.in.w, p.out.w, p.kw, p.place.pad_x)) return "windows that lie outside the image altogether";
  if (widest_strip(p, pixel, 3) < 8) return "windows this wide leave a strip few outputs";
  const StripShape s = strip_shape(p, arch);
  if (s.shared_bytes > arch.shared_bytes) return "windows this tall leave no shared memory";
  const int64_t items = p.out.n * p.out.c * ceil_div(p.out.w, s.tile_w);
  return std::max(items + kMostSubtiles, strip_blocks(p, s)) > INT_MAX ? "too many tiles" : nullptr;
}

inline const char* name_of(Above above) {
  switch (above) {
    case Above::chain: return "box::Above::chain";
    case Above::kept: return "box::Above::kept";
    case Above::ring: return "box::Above::ring";
    case Above::reread: return "box::Above::reread";
  }
  __builtin_unreachable();
}

inline void configure_strips(const Box& p, const Arch& arch, Plan& plan) {
  const StripShape s = strip_shape(p, arch);
  plan.why = p.peers.any() ? "column sums and row sums by warps of their own, in strips through all shards"
                           : "column sums and row sums by warps of their own, in strips";
  plan.tile_w = int(s.tile_w);
  plan.tile_h = int(s.tile_h);
  plan.threads = kStripThreads;
  plan.shared_bytes = s.shared_bytes;
  plan.blocks = strip_blocks(p, s);
  // Entering rows stay in L2 until they leave, as long as they fit there. float32 8192^2 on one NVIDIA H200, without /
  // with: 15x15 166 / 153 us (the windows in registers), 31x31 188 / 152 in a prototype, 200x200 284 / 296.
  const bool policies = p.kh < 100;
  const int subtiles = s.pixel > 1 ? s.pixel : s.subtiles > 1 ? 0 : 1;
  const bool counts = float_finish_of(p.place) != Finish::scale;
  const Kernel kernel = kernel_of("kernels/box/strips/kernel.cuh", "box::box_strips",
                                  {p.in.dtype,
                                   p.out.dtype,
                                   {"box::StripPolicy",
                                    {name_of(s.above), s.number, int(p.kw), s.pixel > 1 ? 0 : s.shift, s.stages,
                                     subtiles, s.vectors, policies, counts}}});
  plan.kernels = {with_peers(kernel, p.peers.any())};
  plan.config = s;
}

inline StripArgs strip_args(const Box& p, const Plan& plan, const StripShape& s) {
  const Reciprocal<float> area = p.scale != 1 ? reciprocal<float>(double(p.kh) * double(p.kw))
                                              : Reciprocal<float>{1, std::numeric_limits<float>::denorm_min()};
  const int phase = group_phase(p);
  const auto rows = [&](const Image& x) { return as_rows(x, s.pixel); };
  const Peers peers = p.peers.nearest(p.kh - 1);
  const Image in = rows(p.in), out = rows(p.out), above = rows(peers.above), below = rows(peers.below);
  return {.in = in.data,
          .out = out.data,
          .in_stride_n = in.stride_n,
          .in_stride_c = in.stride_c,
          .in_stride_h = in.stride_h,
          .out_stride_n = out.stride_n,
          .out_stride_c = out.stride_c,
          .out_stride_h = out.stride_h,
          .planes = int(out.n * out.c),
          .channels = int(out.c),
          .subtiles = s.subtiles,
          .pitch = s.pitch,
          .subtile_of_quad = int(ceil_div(int64_t(4) << 20, s.pitch)),
          .in_h = int(p.in.h),
          .in_w = int(p.in.w),
          .out_h = int(p.out.h),
          .out_w = int(p.out.w),
          .kh = int(p.kh),
          .kw = int(p.kw),
          .pad_y = int(p.place.pad_y),
          .pad_x = int(p.place.pad_x),
          .shift = s.shift,
          .tile_w = plan.tile_w,
          .tile_h = plan.tile_h,
          .tiles = int(ceil_div(p.out.w, plan.tile_w)),
          .segments = int(ceil_div(p.out.h + phase, plan.tile_h)),
          .phase = phase,
          .blocks = s.blocks,
          .lanes = s.lanes,
          .area_hi = area.hi,
          .area_lo = area.lo,
          .outside = p.place.border == Border::constant ? p.place.value : 0,
          .border = p.place.border,
          .finish = float_finish_of(p.place),
          .aligned_out = rows_start_on(out, 4 * size_of(out.dtype)),
          .counted_pad_y = int(p.place.pad_y - above.h),
          .counted_h = int(above.h + in.h + below.h),
          .peers = PeerRows::of({above, below}, in)};
}

}  // namespace torch_conv::box
