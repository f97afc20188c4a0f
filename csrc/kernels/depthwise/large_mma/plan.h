// LARGE_MMA: large windows over half-precision images on tensor cores.
#pragma once

#include "kernels/depthwise/config.h"
#include "kernels/depthwise/large_mma/params.h"

namespace torch_conv::depthwise {

void launch_large_mma(const Depthwise& p, const Plan& plan, const Site& site);

struct LargeMmaConfig {
  LargeMmaShape shape;
  int64_t channel_groups;
  int plane_bytes = 0;  // of the planes of 16 images that bulk copies load; 0: threads load rows
  double clocks = 0;    // estimated, of the whole launch
};

constexpr int kLargeMmaMostWarps = 8;
constexpr int64_t kLargeMmaMostWindow = 33;

// The mma of 16 and of 8 columns that a warp needs for one input and one output row.
struct MmaCount {
  int k16 = 0, k8 = 0;
};

inline MmaCount count_mma(const LargeMmaPolicy& tile) {
  MmaCount count;
  for (int pair = tile.first_pair; pair < tile.end_pair; ++pair)
    for (int t = 0; t < tile.blocks; ++t) {
      const int d = LargeMmaPolicy::block(pair, tile.pair_stride) - tile.lag - t, e = d + tile.pair_stride;
      const int both = (d >= 0 && d < tile.spans) + (e >= 0 && e < tile.spans);
      count.k16 += both == 2, count.k8 += both == 1;
    }
  return count;
}

// A configuration: M has `images` images, a warp `rows` rows and `blocks` blocks. `clocks` is -1 if it does not fit.
inline LargeMmaConfig large_mma_shape(const Depthwise& p, const Arch& arch, int images, int rows, int blocks,
                                      int pair_stride) {
  LargeMmaShape s;
  const int kh = int(p.kh), kw = int(p.kw), pad_y = int(p.place.pad_y), pad_x = int(p.place.pad_x);
  const int ahead = int(round_up(pad_x, 8));
  s.lead = int(round_up(pad_x, 16 * pair_stride));
  s.shift = ahead - pad_x;
  s.tile = {.rows = rows,
            .blocks = blocks,
            .spans = int(ceil_div(kw + 7 + s.shift, 8)),
            .lag = (s.lead - ahead) / 8,
            .pair_stride = pair_stride};
  s.tile.end_pair = s.tile.pairs();
  s.images = images, s.strips = 16 / images;
  while (1 << s.strip_bits < s.strips) ++s.strip_bits;

  // Tiles have at most 64 x 64 outputs and about the same size.
  s.tiles_y = int(ceil_div(p.out.h, 64)), s.tiles_x = int(ceil_div(p.out.w, 64));
  s.tile_h = int(ceil_div(p.out.h, s.tiles_y));
  s.column_tiles = int(ceil_div(ceil_div(p.out.w, s.tiles_x), 8 * blocks));
  s.tile_w = s.column_tiles * 8 * blocks;
  if (s.tiles_x > 1) {  // tiles start on whole pairs of blocks
    s.tile_w = int(round_up(s.tile_w, s.tile.unit()));
    s.column_tiles = int(ceil_div(s.tile_w, 8 * blocks));
    s.tiles_x = int(ceil_div(p.out.w, s.tile_w));
  }
  s.strip_rows = int(ceil_div(s.tile_h, s.strips));
  s.row_groups = int(ceil_div(s.strip_rows, rows));
  s.tile.guard = s.tiles_x * s.column_tiles > 1;
  const int unit = s.tile.unit(), wide = int(round_up(p.in.w, unit));
  s.slab_columns = std::min<int>(wide, int(round_up(s.tile_w + kw - 1 - pad_x + s.lead, unit)));
  if (!s.tile.guard) {
    s.tile.first_pair = s.lead / unit * pair_stride;
    s.tile.end_pair = std::max(s.tile.first_pair, std::min(s.tile.end_pair, (s.lead + wide) / unit * pair_stride));
    s.slab_columns = std::min(s.slab_columns, (s.tile.end_pair - s.tile.first_pair) * 16);
  }

  // Rows of M are in different banks: strips 16 bytes apart modulo 128, images 16 bytes times the number of strips.
  const auto filler = [](int bytes, int want) { return ((want - bytes) % 128 + 128) % 128; };
  const int slab_rows = int(std::min<int64_t>(p.in.h, s.tile_h + kh - 1));
  s.pitch = 2 * s.slab_columns;
  s.gap = s.strips == 1 ? 0 : filler(s.strip_rows * s.pitch, 16);
  s.strip_stride = s.strip_rows * s.pitch + s.gap;
  const int slab_bytes = slab_rows * s.pitch + (slab_rows / s.strip_rows + 2) * s.gap;
  s.image_stride = slab_bytes + filler(slab_bytes, 16 * s.strips % 128);
  s.table = s.images * s.image_stride;
  // Half of the banks are between the two copies.
  const int copy = (kh + 2 * (rows - 1)) * 4 * large_mma_row_words(s.tile.spans);
  s.second_copy = int(round_up(copy, 128)) + 64;
  s.channel_bytes = int(round_up(s.table + s.second_copy + copy, 16));

  // A block has several warps if enough blocks for all multiprocessors are left.
  const int per_channel = s.row_groups * s.column_tiles;
  const int64_t blocks_of_one = p.out.c * ceil_div(p.out.n, s.images) * s.tiles_y * s.tiles_x;  // with a channel each
  s.channels = 1;
  while (2 * s.channels * per_channel <= kLargeMmaMostWarps &&
         blocks_of_one / (2 * s.channels) >= 3 * arch.multiprocessors)
    s.channels *= 2;
  s.warps = std::min(kLargeMmaMostWarps, s.channels * per_channel);

  // Clocks: k16 takes 6.4 and k8 4.4 of a quarter of a multiprocessor (ncu, one NVIDIA H200). A load from shared
  // memory takes one clock of the whole.
  LargeMmaConfig config{.shape = s, .channel_groups = ceil_div(p.out.c, s.channels)};
  const int shared = kLargeMmaHead + s.channels * s.channel_bytes;
  if (shared > arch.shared_bytes || rows * blocks > 16 || (s.tile.guard && 8 * blocks % unit != 0)) {
    config.clocks = -1;
    return config;
  }
  const MmaCount mma = count_mma(s.tile);
  const double row_clocks = 6.4 * mma.k16 + 4.4 * mma.k8;
  const double step_clocks = 2.0 * (4 * (s.tile.end_pair - s.tile.first_pair) + s.tile.spans) + 8 +
                             (pair_stride == 1 ? 0.5 * mma.k16 * rows : 0);
  double work = 0;  // of all warps' tiles of one channel
  for (int group = 0; group < s.row_groups; ++group) {
    const int here = std::min(rows, s.strip_rows - group * rows);
    const int last_row = s.images == 16 && s.tiles_y == 1 ? int(p.in.h) : 1 << 20;
    const int first = s.images == 16 && s.tiles_y == 1 ? std::max(0, pad_y - group * rows) : 0;
    const int end = std::min(kh + rows - 1, last_row - group * rows + pad_y);
    for (int i = first; i < end; ++i) {
      work += step_clocks;
      for (int j = 0; j < here; ++j) work += i >= j && i < kh + j ? row_clocks : 0;
    }
    work += 1500;
  }
  work *= s.column_tiles;
  const double all_blocks = double(blocks_of_one) / s.channels, quarters = 4.0 * arch.multiprocessors;
  const int resident = std::max(1, std::min((arch.shared_bytes + 1024) / (shared + 1024), 16 / s.warps));
  const double busy = std::min(double(resident), std::ceil(all_blocks / arch.multiprocessors));  // blocks at a time
  const double one_block = work * s.channels / s.warps * std::max(busy * s.warps / 4, 2.0);
  config.clocks = std::max(std::ceil(all_blocks / (busy * arch.multiprocessors)) * one_block,
                           all_blocks * work * s.channels / quarters);
  return config;
}

// Bytes of a plane, if the planes of 16 images have the same layout in shared memory as in device memory. Else 0.
inline int large_mma_plane_bytes(const Depthwise& p, const Arch& arch, const LargeMmaShape& s) {
  const Image& in = p.in;
  const auto is_aligned = [](int64_t elements) { return elements * 2 % 16 == 0; };
  const bool dense = (in.w == 1 || in.stride_w == 1) && (in.h == 1 || in.stride_h == in.w) && s.slab_columns == in.w;
  const bool starts = reinterpret_cast<uintptr_t>(in.data) % 16 == 0 && (in.c == 1 || is_aligned(in.stride_c)) &&
                      (in.n == 1 || is_aligned(in.stride_n)) && is_aligned(in.h * in.w);
  const bool all = s.images == 16 && s.tiles_x * s.tiles_y == 1 && s.tile_h + p.kh - 1 - p.place.pad_y >= in.h;
  return arch.bulk_copy && dense && starts && all ? int(2 * in.h * in.w) : 0;
}

// The configuration with the lowest estimate. Measured on one NVIDIA H200, float16, microseconds:
//
//     64x384x32x32, 31x31   91      64x384x32x32, 13x13   56      64x96x56x56, 31x31   115
//     1x384x32x32, 31x31    10.2    1x384x32x32, 13x13    5.8     64x384x28x28, 13x13  68
//
// Other configurations, where threads load all rows (112 and 75 us for the first two):
//
//     64x384x32x32, 31x31   16 images: 4 rows 112 (pairs of neighbouring blocks: 119), 3 rows 122, 2 rows 119;
//                           8 images 148, 1 image 280
//     64x384x32x32, 13x13   16 images: 4 rows 75 (pairs two blocks apart: 76), 3 rows 80, 2 rows 80; 4 images 98
//     1x384x32x32, 31x31    1 row 10.4, 2 rows 13.3, 2 rows of 16 columns 11.1; 13x13: 1 row 6.5, 2 rows 7.8
//     64x96x56x56, 31x31    16 images, 2 rows of 56 columns 126; 4 images: 132, 4 rows of 32 columns 176
//
// A grid of resident blocks that load the next tile ahead takes 113 and 59 us for the first two.
// The estimate leaves out the time of a block's first loads and of its stores. For 64 images it is too low by 20 us
// (31x31) to 40 us (14x14 maps).
inline LargeMmaConfig large_mma_config(const Depthwise& p, const Arch& arch) {
  LargeMmaConfig best{.clocks = -1};
  const int wide = int(std::min<int64_t>(8, ceil_div(p.out.w, 8)));
  for (int images = 16; images >= 1; images /= 2) {
    if (images > 1 && images / 2 >= p.out.n) continue;
    for (int blocks : {wide, 4, 2}) {
      if (blocks > wide) continue;
      for (int rows = 1; rows <= 8; ++rows) {
        if (rows * blocks > 16) continue;
        for (int pair_stride : {2, 1}) {
          const LargeMmaConfig one = large_mma_shape(p, arch, images, rows, blocks, pair_stride);
          if (one.clocks > 0 && (best.clocks < 0 || one.clocks < best.clocks)) best = one;
        }
      }
    }
  }
  best.plane_bytes = large_mma_plane_bytes(p, arch, best.shape);
  return best;
}

inline const char* large_mma_refusal(const Depthwise& p, const Arch& arch) {
  if (arch.major < 8) return "no tensor cores with float32 sums of bfloat16";
  if (p.sums == Sums::chain) return "sums as one chain of multiply-adds";
  if (!is_half(p.in.dtype) || p.out.dtype != p.in.dtype) return "no float16 or bfloat16";
  if (p.weights != p.in.dtype) return "taps of another dtype";
  if (!p.place.unit_steps_of_images()) return "stride or dilation";
  if (!rows_inner(p.in) || !rows_inner(p.out)) return "pixels of a row are not contiguous";
  if (p.kh > kLargeMmaMostWindow || p.kw > kLargeMmaMostWindow) return "a window larger than 33x33";
  if (p.place.pad_y < 0 || p.place.pad_y >= p.kh || p.place.pad_x < 0 || p.place.pad_x >= p.kw)
    return "padding not smaller than the window";
  if (!below(kMostSide, {p.in.h, p.in.w, p.out.h, p.out.w, p.out.n, p.out.c})) return "an axis of 2^30";
  if (double(p.out.n * p.out.c) * double(ceil_div(p.out.h, 32) * ceil_div(p.out.w, 32)) >= 1 << 30) return "2^30 tiles";
  if (large_mma_config(p, arch).clocks < 0) return "too little shared memory";
  return nullptr;
}

inline void configure_large_mma(const Depthwise& p, const Arch& arch, Plan& plan) {
  const LargeMmaConfig config = large_mma_config(p, arch);
  const LargeMmaShape& s = config.shape;
  const LargeMmaPolicy& t = s.tile;
  plan.why = config.plane_bytes ? "banded matrices, whole planes by bulk copies" : "banded matrices";
  plan.tile_w = s.tile_w;
  plan.tile_h = s.tile_h;
  plan.threads = 32 * s.warps;
  plan.shared_bytes = kLargeMmaHead + s.channels * s.channel_bytes;
  plan.blocks = config.channel_groups * ceil_div(p.out.n, s.images) * s.tiles_y * s.tiles_x;
  const TemplateArgument tile("depthwise::LargeMmaPolicy",
                              {t.rows, t.blocks, t.spans, t.lag, t.pair_stride, t.first_pair, t.end_pair, t.guard});
  plan.kernels = {kernel_of("kernels/depthwise/large_mma/kernel.cuh", "depthwise::depthwise_large_mma",
                            {p.in.dtype, tile, argument_of(p.activation)})};
  plan.config = config;
}

}  // namespace torch_conv::depthwise
