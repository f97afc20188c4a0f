// Direct + Arch -> Plan: which kernel serves the problem, and with which tile. Pure.
#pragma once

#include <cstring>

#include "core/rooms.h"
#include "core/tma.h"

namespace torch_conv::direct2d {

// Pixels of one lane: 16 bytes, but 8 for uint8 windows of 5x5 up, whose sums would not fit into the registers.
constexpr int lane_pixels(int bytes, int k) { return bytes == 1 && k > 3 ? 8 : 16 / bytes; }

// TILE: output rows per warp, and the columns loaded left and right of the tile. One warp covers 32 * lane_pixels
// columns, four warps lie one above the other.
struct TileShape {
  int lane_pixels, rows, pad;
  static constexpr int warps = 4;
  constexpr int width() const { return 32 * lane_pixels; }
  constexpr int height() const { return warps * rows; }
  constexpr int shared_width() const { return width() + 2 * pad; }
  constexpr int shared_bytes(int bytes, int k) const { return shared_width() * (height() + k - 1) * bytes; }
};

// A box that starts on 128 bytes is the biggest lever (5x5: 92 -> 97 % of copy), 32 bytes is better at 7x7, where the
// larger box would cost resident blocks (90 against 92 %); rows per warp 8 for 3x3 and 5x5, 10 for 7x7 (88 -> 89 %).
// All measured on one NVIDIA H200, float32 8192^2.
constexpr TileShape tile_shape(int bytes, int k) {
  const int pad_bytes = k < 7 && bytes == 4 ? 128 : 32;
  return {.lane_pixels = lane_pixels(bytes, k), .rows = bytes == 4 ? (k == 7 ? 10 : 8) : 6, .pad = pad_bytes / bytes};
}

// REG: output rows of one warp (float32 8192^2 on one NVIDIA H200: 3x3 5 rows 98 %; 5x5 10 rows 96 %; 16-bit 3x3 6 rows
// 97 %).
constexpr int reg_rows(int bytes, int k) { return bytes == 2 ? 6 : k == 3 ? 5 : 10; }
constexpr int kRegWarps = 4;

inline bool tiled_type(Dtype d) { return d == Dtype::f32 || d == Dtype::f16 || d == Dtype::bf16 || d == Dtype::u8; }

// Square 3x3, 5x5, 7x7 windows at stride 1 on planar images: what the compiled windows serve. A window hangs over an
// edge by less than its size (a convolution's padding may be larger).
inline bool tile_serves(const Direct& p) {
  const Placement& s = p.place;
  auto near = [](int64_t in, int64_t out, int64_t k, int64_t pad) { return pad >= 0 && pad < k && out - pad <= in; };
  if (!near(p.in.h, p.out.h, p.kh, s.pad_y) || !near(p.in.w, p.out.w, p.kw, s.pad_x)) return false;
  return p.kh == p.kw && (p.kh == 3 || p.kh == 5 || p.kh == 7) && s.stride_y == 1 && s.stride_x == 1 &&
         s.dilation_y == 1 && s.dilation_x == 1 && p.in.dtype == p.out.dtype && tiled_type(p.in.dtype) &&
         p.in.stride_w == 1 && p.out.stride_w == 1 && p.in.c == p.groups && s.border != Border::skip &&
         (s.border != Border::constant || holds(p.in.dtype, s.value)) && p.in.w < (1 << 30) && p.in.h < (1 << 30) &&
         p.out.w < (1 << 30) && p.out.h < (1 << 30);
}

// Bulk copies start on 16 bytes.
inline int lead_columns(const Direct& p) { return tma::lead_columns(p.kw, p.place.pad_x, 16 / size_of(p.in.dtype)); }

inline bool tile_tma_serves(const Direct& p, const Arch& arch) {
  return arch.bulk_copy && tile_serves(p) && tma::words_possible(p.in);
}

inline bool reg_serves(const Direct& p) {
  const int bytes = size_of(p.in.dtype);
  return tile_serves(p) && ((bytes == 4 && p.kh <= 5) || (bytes == 2 && p.kh == 3)) && p.place.pad_x == p.kw / 2 &&
         aligned_rows(p.in) && aligned_rows(p.out);
}

// WINDOW: a tile of 128 columns x 32 rows and its halo in shared memory, in the accumulation dtype, beside the taps.
struct WindowShape {
  int64_t pitch, rows, tap_pitch;
  int64_t bytes;
};
// float32 4096^2 on one NVIDIA H200: 9x9 255 us, 15x15 460, 31x31 1615 (GENERAL 818, 2011, 7953).
constexpr int kWindowColumns = 128, kWindowRows = 8, kWindowWarps = 4;

inline WindowShape window_shape(const Direct& p) {
  WindowShape s{.pitch = ceil_div(kWindowColumns + p.kw + 3, 4) * 4,
                .rows = kWindowWarps * kWindowRows + p.kh - 1,
                .tap_pitch = ceil_div(p.kw, 4) * 4};
  s.bytes = (s.pitch * s.rows + s.tap_pitch * p.kh) * (p.in.dtype == Dtype::f64 ? 8 : 4);
  return s;
}

inline bool window_serves(const Direct& p, const Arch& arch) {
  const Placement& s = p.place;
  return s.stride_y == 1 && s.stride_x == 1 && s.dilation_y == 1 && s.dilation_x == 1 && s.border != Border::skip &&
         p.kh <= 512 && p.kw <= 512 && window_shape(p).bytes <= arch.shared_bytes && p.in.h < (1 << 30) &&
         p.in.w < (1 << 30) && p.out.h < (1 << 30) && p.out.w < (1 << 30);
}

// COLUMN: windows of width 1. A warp computes 32 * column_pixels columns x kColumnRows rows; the warps of a block are
// stacked in y, the tiles of a strip of kStripTiles follow each other in raster order.
constexpr int kColumnRows = 8, kColumnWarps = 8, kStripTiles = 64;

// Channels that lie side by side are columns of their own.
inline Direct column_problem(const Direct& p) {
  auto interleaved = [](const Image& x) { return x.stride_c == 1 && x.stride_w == x.c; };
  Direct q = p;
  if (p.in.c > 1 && p.in.c == p.out.c && p.groups == p.in.c && p.taps.stride_c == 0 && !p.bias && interleaved(p.in) &&
      interleaved(p.out)) {
    q.in.w = p.in.w * p.in.c, q.out.w = p.out.w * p.out.c;
    q.in.c = q.out.c = q.groups = 1;
    q.in.stride_w = q.out.stride_w = 1;
  }
  return q;
}

inline bool column_serves(const Direct& column) {
  const Placement& s = column.place;
  auto small = [](int64_t i) { return i < (1 << 30); };
  return column.kw == 1 && column.kh >= 2 && s.stride_y == 1 && s.stride_x == 1 && s.dilation_y == 1 &&
         s.dilation_x == 1 && s.pad_x == 0 && column.out.w <= column.in.w && s.border != Border::skip &&
         column.in.stride_w == 1 && column.out.stride_w == 1 && column.in.c == column.groups && small(column.in.h) &&
         small(column.in.w) && small(column.out.h) && small(column.kh) && small(s.pad_y + column.kh) &&
         column.in.stride_h >= 0 && column.in.stride_h * size_of(column.in.dtype) < (int64_t(1) << 32);
}

// Columns of one thread: as many as one load and one store take, where both are aligned.
inline int column_pixels(const Direct& column) {
  const int n = column.in.dtype == Dtype::f64 ? 2 : 4;
  auto aligned = [&](const Image& x) {
    auto whole = [&](int64_t stride, int64_t count) { return count == 1 || stride % n == 0; };
    return reinterpret_cast<uintptr_t>(x.data) % (n * size_of(x.dtype)) == 0 && whole(x.stride_h, x.h) &&
           whole(x.stride_c, x.c) && whole(x.stride_n, x.n);
  };
  return column.out.w % n == 0 && aligned(column.in) && aligned(column.out) ? n : 1;
}

// Tall blocks share halos in L1; small images rather fill the machine.
inline int column_warps(const Direct& column, int tile_w, const Arch& arch) {
  const int64_t stacks = column.out.n * column.out.c * ceil_div(column.out.w, tile_w);
  auto blocks = [&](int warps) { return stacks * ceil_div(column.out.h, warps * kColumnRows); };
  int warps = kColumnWarps;
  while (warps > 1 && (warps / 2 * kColumnRows >= column.out.h || blocks(warps) < 4 * arch.multiprocessors)) warps /= 2;
  return warps;
}

inline Plan plan(const Direct& p, const Arch& arch, const char* pinned) {
  const int bytes = size_of(p.in.dtype);
  const int k = int(p.kh);
  const int64_t planes = p.out.n * p.out.c;
  const int64_t taps = p.kh * p.kw * (p.in.c / p.groups);
  Plan plan{.algorithm = "direct", .variant = nullptr, .why = ""};
  plan.bytes =
      double(p.in.n * p.in.c * p.in.h * p.in.w) * bytes + double(planes * p.out.h * p.out.w) * size_of(p.out.dtype);
  plan.flops = 2.0 * double(taps) * double(planes * p.out.h * p.out.w);

  if (p.beside.any() && !p.beside.same_columns(p.in)) return plan;
  int64_t columns = p.out.w;
  const auto chosen = [&](const char* name) { return *pinned == 0 || std::strcmp(pinned, name) == 0; };
  // float32 3x3: REG 97 % of copy, TILE 94 %; 5x5: TILE 90 %, REG 86 %; float16 3x3: TILE 82 %, REG 67 % (4096^2,
  // reflect, one NVIDIA H200). Without bulk copies REG serves all it can: TILE with plain loads reaches 50-60 %.
  const bool prefer_reg = k == 3 && bytes == 4;
  if (chosen("reg") && reg_serves(p) && (*pinned != 0 || prefer_reg || !tile_tma_serves(p, arch))) {
    plan.variant = "reg";
    plan.why = "small odd window, aligned rows: every row load in flight, neighbours by shuffle";
    plan.tile_w = 30 * 16 / bytes;
    plan.tile_h = kRegWarps * reg_rows(bytes, k);
    plan.threads = 32 * kRegWarps;
  } else if (tile_serves(p) && (chosen("tile_tma") || chosen("tile"))) {
    const bool bulk = chosen("tile_tma") && tile_tma_serves(p, arch);
    if (!bulk && !chosen("tile")) return plan;
    const TileShape shape = tile_shape(bytes, k);
    plan.variant = bulk ? "tile_tma" : "tile";
    plan.why = bulk ? "odd window up to 7x7: one bulk copy brings tile and halo"
                    : "odd window up to 7x7, plain loads: no bulk copies, or rows not 16-byte aligned";
    plan.tile_w = shape.width();
    plan.tile_h = shape.height();
    plan.threads = 32 * TileShape::warps;
    plan.shared_bytes = shape.shared_bytes(bytes, k);
    columns += bulk ? lead_columns(p) : 0;
  } else if (const Direct column = column_problem(p); chosen("column") && column_serves(column) && !p.beside.any()) {
    plan.variant = "column";
    plan.why = "width 1: rows pass through registers";
    plan.tile_w = 32 * column_pixels(column);
    plan.threads = 32 * column_warps(column, plan.tile_w, arch);
    plan.tile_h = plan.threads / 32 * kColumnRows;
    plan.blocks =
        column.out.n * column.out.c * ceil_div(column.out.h, plan.tile_h) * ceil_div(column.out.w, plan.tile_w);
    return plan;
  } else if (chosen("window") && window_serves(p, arch)) {
    plan.variant = "window";
    plan.why = "stride and dilation 1: tile and taps in shared memory";
    plan.tile_w = kWindowColumns;
    plan.tile_h = kWindowWarps * kWindowRows;
    plan.threads = 32 * kWindowWarps;
    plan.shared_bytes = int(window_shape(p).bytes);
  } else if (chosen("general")) {
    plan.variant = "general";
    plan.why = "any window, stride, dilation, dtype pair and layout";
    plan.tile_w = 4;
    plan.tile_h = 1;
    plan.threads = 256;
    plan.blocks = ceil_div(planes * p.out.h * ceil_div(p.out.w, 4), plan.threads);
    return plan;
  } else {
    return plan;
  }
  plan.blocks = planes * ceil_div(p.out.h, plan.tile_h) * ceil_div(columns, plan.tile_w);
  return plan;
}

}  // namespace torch_conv::direct2d
