// Separable + Arch -> Plan: which kernel serves the problem, and with which tile. Pure.
#pragma once

#include "core/refusals.h"
#include "kernels/families.h"
#include "kernels/separable2d/params.h"
#include "kernels/separable2d/products/plan.h"
#include "kernels/separable2d/ring/plan.h"
#include "kernels/separable2d/tile/plan.h"

namespace torch_conv::separable2d {

enum class Variant : int8_t { products, tile, ring, strip, shared, two_pass };

// What launches need besides the plan; a variant's own part is filled.
struct Config {
  Variant variant;
  TileShape tile{};
  bool bulk = false;  // boxes by bulk copies
  RingShape ring{};
  StripShape strip{};
  GeneralTile general{};
  int64_t row_blocks = 0;  // the first launch of two_pass
};

inline bool rows_start_on(const Beside& beside, int64_t bytes) {
  const auto fits = [&](const Image& x) { return !x.data || rows_start_on(x, bytes); };
  return fits(beside.above) && fits(beside.below);
}

// ---- PRODUCTS (plan_products.h) ----------------------------------------------------------------------------------

inline void configure_products(const Separable& p, const Arch& arch, Plan& plan) {
  fill_products(p, arch, plan);
  plan.config = Config{.variant = Variant::products};
}

// ---- TILE (plan_tile.h) --------------------------------------------------------------------------------------------

inline void configure_tile(const Separable& p, bool bulk, Plan& plan) {
  const TileShape shape = fill_tile(p, bulk, plan);
  plan.config = Config{.variant = Variant::tile, .tile = shape, .bulk = bulk};
}
inline void configure_tile_tma(const Separable& p, const Arch&, Plan& plan) { configure_tile(p, true, plan); }
inline void configure_tile_plain(const Separable& p, const Arch&, Plan& plan) { configure_tile(p, false, plan); }

// ---- RING (plan_ring.h) ------------------------------------------------------------------------------------------

// What TILE serves it serves faster, unless windows of 9 taps and more leave it fewer blocks than there are
// multiprocessors. One NVIDIA H200, us, TILE and RING: 512^2 7x7 3.6, 4.2; 9x9 4.4, 4.3; 13x13 6.7, 4.6;
// 15x15 7.4, 4.7; 1024^2 9x9 6.4, 6.2; 11x11 6.8, 6.8; 13x13 8.2, 7.0; 15x15 8.8, 7.1; 2048^2 9x9 13.0, 13.2;
// 15x15 14.9, 15.0; 4096^2 5x5 37.2, 40.8; 9x9 40.3, 42.0; 15x15 44.3, 43.5; 8192^2 15x15 149, 157; 16x3x1080x1920
// 15x15 219, 225. Photographs of 3 channels, 16x1080x1920, one NVIDIA H100 (a copy takes 267): 3x3 295, 307; 5x5 282,
// 312; 7x7 281, 307; 9x9 285, 307; 15x15 380, 323.
inline const char* ring_loses(const Separable& p, const Arch& arch) {
  if (tile_refusal(p, arch)) return nullptr;
  if (photo_channels(p) > 1) return p.kw <= 9 ? "tiles are faster for photographs and an odd size up to 9" : nullptr;
  const bool few = tile_blocks(p, tile_shape(p, 1)) < arch.multiprocessors;
  return few && p.kw >= 9 ? nullptr : "tiles are faster for an odd size up to 15";
}

inline void configure_ring(const Separable& p, bool bulk, const Arch& arch, Plan& plan) {
  const RingShape shape = fill_ring(p, bulk, arch, plan);
  plan.config = Config{.variant = Variant::ring, .bulk = bulk, .ring = shape};
}
inline void configure_ring_bulk(const Separable& p, const Arch& arch, Plan& plan) {
  configure_ring(p, true, arch, plan);
}

// ---- STRIP -------------------------------------------------------------------------------------------------------
//
// Planes that RING does not serve: before compute capability 9.0, of 16-bit floats and bytes with fewer taps than
// tensor cores are worth, and windows whose ring takes too much shared memory.

inline StripShape strip_shape(const Separable& p, int steps) {
  const int size = size_of(p.in.dtype), vector = 16 / size;
  StripShape s{};
  s.steps = steps;
  s.slots = int(ceil_div(p.kh - 1 + kStripRows, kStripRows));
  s.skew = int(round_up(p.place.pad_x, vector) - p.place.pad_x);
  s.columns = int(round_up(s.skew + kStripThreads + p.kw - 1, vector));
  s.pitch = (s.columns / vector | 1) * vector;
  // The row pass loads whole blocks of taps and elements: up to 32 more than the last row has.
  const int64_t taps = round_up(p.kw, kStripReuse) + round_up(p.kh, kStripRows);
  s.bytes = int((taps + s.slots * kStripRows * kStripPitch) * 4 + (kStripRows * s.pitch + 32) * size);
  return s;
}

inline int64_t strip_blocks(const Separable& p, int steps) {
  return p.out.n * p.out.c * ceil_div(p.out.w, kStripThreads) * ceil_div(p.out.h, steps * kStripRows);
}

inline const char* strip_refusal(const Separable& p, const Arch& arch) {
  constexpr int64_t most = 1024;  // keeps `bytes` an int
  if (const char* no = planar_refusal(p)) return no;
  const bool fits = p.kh <= most && p.kw <= most && strip_shape(p, 1).bytes <= arch.shared_bytes / 2;
  return fits ? nullptr : "a window beyond shared memory";
}

// Long strips repeat few row passes, short ones leave no multiprocessor idle: the least of rounds of resident blocks
// times steps, where a step without outputs (the ring fills) costs half.
inline int strip_steps(const Separable& p, const Arch& arch) {
  const StripShape shape = strip_shape(p, 1);
  const int64_t fitting = arch.shared_bytes / (shape.bytes + 1024);
  const int64_t resident = arch.multiprocessors * std::max<int64_t>(1, std::min<int64_t>(kStripBlocks, fitting));
  const int most = int(std::min<int64_t>(32, ceil_div(p.out.h, kStripRows)));
  int best = 1;
  int64_t least = INT64_MAX;
  for (int steps = 1; steps <= most; ++steps) {
    const int64_t cost = ceil_div(strip_blocks(p, steps), resident) * (2 * steps + shape.slots);
    if (cost <= least) least = cost, best = steps;
  }
  return best;
}

inline void configure_strip(const Separable& p, const Arch& arch, Plan& plan) {
  const StripShape shape = strip_shape(p, strip_steps(p, arch));
  plan.why = "planar image at stride 1: row results in a ring, marching down";
  plan.tile_w = kStripThreads;
  plan.tile_h = shape.steps * kStripRows;
  plan.threads = kStripThreads;
  plan.shared_bytes = shape.bytes;
  plan.blocks = strip_blocks(p, shape.steps);
  plan.kernels = {kernel_of("kernels/separable2d/strip/kernel.cuh", "separable2d::separable_strip", {p.in.dtype})};
  plan.config = Config{.variant = Variant::strip, .strip = shape};
}

// ---- RING_WORDS (plan_ring.h) ------------------------------------------------------------------------------------
//
// RING where rows start anywhere, and for windows that make boxes of more than 256 columns. One NVIDIA H100, us. Rows
// that start anywhere, TILE (from 17 taps on STRIP, of photographs SHARED) and RING_WORDS: 16x3x1080x1917 3x3 335, 362;
// 5x5 360, 365; 9x9 389, 370; 15x15 570, 376; 31x31 956, 469; 63x63 1732, 795; photographs 5x5 394, 399; 15x15 856,
// 428; 31x31 1804, 505; 2048x2047 3x3 21.4, 17.0; 7x7 23.5, 17.0; 31x31 57, 27; 512x511 3x3 9.5, 6.7; 7x7 10.1, 6.4;
// 31x31 24, 10.5. Large windows, STRIP (from 170 taps on TWO_PASS): 4096^2 127x127 370, 356; 191x191 906, 519; 255x255
// 1089, 700; 8192^2 127x127 1156, 1208; 255x255 4172, 2240; 2048^2 127x127 131, 141; 255x255 304, 314; 1024^2 255x255
// 104, 193.
inline const char* ring_words_loses(const Separable& p, const Arch& arch) {
  if (!tile_tma_refusal(p, arch)) return "tiles are faster for an odd size up to 15";
  const Separable rows = as_rows(p);
  const bool many = p.kw < 5 && !tile_refusal(p, arch) &&
                    tile_blocks(rows, tile_shape(rows, photo_channels(p))) > 64 * arch.multiprocessors;
  if (many) return "tiles are faster for 3x3 of many images";
  const RingShape s = ring_shape(p, false);
  if (!strip_refusal(p, arch)) {
    if (s.bytes() > arch.shared_bytes / 2) return "strips are as fast where one block fills shared memory";
    return plane_copy_refusal(rows.in, arch) ? nullptr : "strips are as fast for windows beyond RING";
  }
  const bool low = ring_steps(rows, s, arch) * kRingRows < 2 * p.kh;
  return low && p.kh > 64 ? "strips would be lower than two windows" : nullptr;
}

inline void configure_ring_words(const Separable& p, const Arch& arch, Plan& plan) {
  configure_ring(p, false, arch, plan);
}

// ---- SHARED and TWO_PASS -----------------------------------------------------------------------------------------

// Channels that lie side by side are filtered together, so that loads and stores are coalesced; pixels may lie further
// apart than that, and outputs anywhere.
inline int channels_together(const Separable& p) {
  const bool together =
      p.in.stride_c == 1 && p.in.c > 1 && p.in.stride_w != 1 && p.taps_x.stride_c == 0 && p.taps_y.stride_c == 0;
  return together ? int(std::min<int64_t>(p.in.c, kReuse)) : 1;
}

inline GeneralTile general_tile(const Separable& p, int rows) {
  const Placement& at = p.place;
  GeneralTile t{};
  t.channels = channels_together(p);
  const int staged = kStaged / t.channels;
  t.pixels = int(std::min<int64_t>(kColumns / t.channels / kReuse * kReuse, round_up(p.out.w, kReuse)));
  while (t.pixels > 1 && (t.pixels - 1) * at.stride_x >= staged) t.pixels /= 2;
  const int64_t first = t.pixels > 1 ? (t.pixels - 1) * at.stride_x + 1 : 1;
  t.taps = int(std::min(p.kw, 1 + (staged - first) / at.dilation_x));
  t.span = int(first + (t.taps > 1 ? (t.taps - 1) * at.dilation_x : 0));
  t.pitch = (t.span * t.channels) | 1;
  t.rows = rows;
  const int64_t ext_rows = (rows - 1) * at.stride_y + (p.kh - 1) * at.dilation_y + 1;
  t.ext_rows = int(std::min<int64_t>(ext_rows, 1 << 20));
  return t;
}

// SHARED keeps the row results of a tile beside the staged input; TWO_PASS only one block of rows of them.
inline int64_t shared_bytes(const GeneralTile& t, int result_rows, Dtype in) {
  return (t.stage_elements() + int64_t(result_rows) * t.columns_pitch()) * acc_bytes(in);
}

// Blocks of a launch over `rows` rows, `tile_rows` a block.
inline int64_t general_blocks(const Separable& p, const GeneralTile& t, int64_t rows, int64_t tile_rows) {
  return p.out.n * ceil_div(p.out.c, t.channels) * ceil_div(p.out.w, t.pixels) * ceil_div(rows, tile_rows);
}

inline int fewer_rows(int rows) { return int(round_up(rows / 2, kReuse)); }

// The tallest tile that leaves room for two blocks per multiprocessor, or the lowest if it leaves room for one; without
// rows if none does.
inline GeneralTile tallest_tile(const Separable& p, const Arch& arch) {
  for (int rows = int(std::min<int64_t>(64, round_up(p.out.h, kReuse))); rows >= kReuse; rows = fewer_rows(rows)) {
    const GeneralTile t = general_tile(p, rows);
    const int64_t bytes = shared_bytes(t, t.ext_rows, p.in.dtype);
    if (bytes <= arch.shared_bytes / 2 || (rows == kReuse && bytes <= arch.shared_bytes)) return t;
    if (rows == kReuse) break;
  }
  return {};
}

// ... made lower while blocks are few.
inline GeneralTile shared_tile(const Separable& p, const Arch& arch) {
  GeneralTile t = tallest_tile(p, arch);
  while (t.rows > kReuse && general_blocks(p, t, p.out.h, t.rows) < 2 * arch.multiprocessors)
    t = general_tile(p, fewer_rows(t.rows));
  return t;
}

inline const char* general_refusal(const Separable& p) { return p.beside.any() ? "reads no other shards" : nullptr; }

inline const char* shared_refusal(const Separable& p, const Arch& arch) {
  if (const char* no = general_refusal(p)) return no;
  return tallest_tile(p, arch).rows > 0 ? nullptr : "row results beyond shared memory";
}

inline const char* shared_loses(const Separable& p, const Arch& arch) {
  const GeneralTile t = tallest_tile(p, arch);
  const bool worth = t.ext_rows <= 3 * t.rows * p.place.stride_y || p.out.h <= t.rows;
  return worth ? nullptr : "most of a tile's row results would be halo";
}

inline void configure_shared(const Separable& p, const Arch& arch, Plan& plan) {
  const GeneralTile tile = shared_tile(p, arch);
  plan.why = "any window whose row results fit shared memory";
  plan.tile_w = tile.pixels;
  plan.tile_h = tile.rows;
  plan.threads = 32 * kWarps;
  plan.shared_bytes = int(shared_bytes(tile, tile.ext_rows, p.in.dtype));
  plan.blocks = general_blocks(p, tile, p.out.h, tile.rows);
  plan.kernels = {
      kernel_of("kernels/separable2d/shared_memory/kernel.cuh", "separable2d::separable_shared", {p.in.dtype})};
  plan.config = Config{.variant = Variant::shared, .general = tile};
}

inline const char* two_pass_refusal(const Separable& p, const Arch&) { return general_refusal(p); }

inline void configure_two_pass(const Separable& p, const Arch&, Plan& plan) {
  constexpr const char* file = "kernels/separable2d/two_pass/kernel.cuh";
  const GeneralTile tile = general_tile(p, kTwoPassRows);
  const int64_t groups = p.out.n * ceil_div(p.out.c, tile.channels);
  plan.why = "a window whose halo outweighs a tile";
  plan.tile_w = tile.pixels;
  plan.tile_h = kTwoPassRows;
  plan.threads = 32 * kWarps;
  plan.shared_bytes = int(shared_bytes(tile, kRowBlock, p.in.dtype));
  plan.blocks = general_blocks(p, tile, p.out.h, kTwoPassRows);
  plan.launches = 2;
  plan.scratch_bytes = groups * (p.in.h + 1) * p.out.w * tile.channels * acc_bytes(p.in.dtype);
  plan.kernels = {kernel_of(file, "separable2d::separable_rows", {p.in.dtype}),
                  kernel_of(file, "separable2d::separable_columns", {p.in.dtype == Dtype::f64 ? "double" : "float"})};
  plan.config = Config{
      .variant = Variant::two_pass, .general = tile, .row_blocks = general_blocks(p, tile, p.in.h + 1, kRowBlock)};
}

constexpr Candidate<Separable> kCandidates[] = {
    {"products", products_refusal, products_lose, configure_products},
    {"ring", ring_refusal, ring_loses, configure_ring_bulk},
    {"ring_words", ring_words_refusal, ring_words_loses, configure_ring_words},
    {"tile_tma", tile_tma_refusal, nullptr, configure_tile_tma},
    {"tile", tile_refusal, nullptr, configure_tile_plain},
    {"strip", strip_refusal, nullptr, configure_strip},
    {"shared", shared_refusal, shared_loses, configure_shared},
    {"two_pass", two_pass_refusal, nullptr, configure_two_pass},
};

inline Plan plan(const Separable& p, const Arch& arch, const char* pinned) {
  const double inputs = double(p.in.n) * p.in.c * p.in.h * p.in.w,
               outputs = double(p.out.n) * p.out.c * p.out.h * p.out.w;
  if (p.sums == Sums::products) {
    if (*pinned && std::strcmp(pinned, "products") != 0) return {.algorithm = "separable"};
    pinned = "products";
  }
  return choose(kCandidates, p, arch, pinned,
                {.algorithm = "separable",
                 .bytes = inputs * size_of(p.in.dtype) + outputs * size_of(p.out.dtype),
                 .flops = 2.0 * outputs * double(p.kh + p.kw)});
}

}  // namespace torch_conv::separable2d
