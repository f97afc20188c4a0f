// What the host and the kernels of this room agree on: the shapes of tiles, and the kernels' parameters.
#pragma once

#include "core/geometry.h"
#include "core/neighbours.h"
#include "core/problem.h"
#include "core/taps.h"
#include "core/tile.h"
#include "core/tma.h"

namespace torch_conv::direct2d {

// ---- TILE ------------------------------------------------------------------------------------------------------

// The tap of k that lies on the output pixel where nobody asks for another: tiles start there.
constexpr int middle_of(int k) { return (k - 1) / 2; }

// Windows up to so many rows and columns; larger ones go to WINDOW.
constexpr int kTileMost = 31;
// Taps that a lane keeps at once; those of larger windows stand in shared memory.
constexpr int kTapsAtOnce = 50;
constexpr bool taps_in_registers(int kh, int kw) { return kh * kw < kTapsAtOnce; }
// Rows of a larger window that are taken together.
constexpr int tap_group(int kh, int kw) {
  const int most = kTapsAtOnce / kw, groups = (kh + most - 1) / most;
  return (kh + groups - 1) / groups;
}
// A row of taps in shared memory, in floats.
constexpr int tile_tap_pitch(int kw) { return (kw + 3) / 4 * 4; }

// Pixels of one lane: 16 bytes, or what the registers hold of a window's sums.
constexpr int lane_pixels(int bytes, int kh, int kw) {
  if (!taps_in_registers(kh, kw)) return 4;
  const int k = kh > kw ? kh : kw;
  return bytes == 1 && k > 3 ? 8 : k > 7 ? 4 : 16 / bytes;
}

// Output rows per warp, and the columns loaded left and right of the tile. One warp covers 32 * lane_pixels columns,
// four warps lie one above the other.
struct TileShape {
  int lane_pixels, rows, pad;
  static constexpr int warps = 4;
  constexpr int width() const { return 32 * lane_pixels; }
  constexpr int height() const { return warps * rows; }
  constexpr int shared_width() const { return width() + 2 * pad; }
  constexpr int box_bytes(int bytes, int kh) const { return shared_width() * (height() + kh - 1) * bytes; }
  constexpr int shared_bytes(int bytes, int kh, int kw) const {
    return box_bytes(bytes, kh) + (taps_in_registers(kh, kw) ? 0 : kh * tile_tap_pitch(kw) * 4);
  }
};

// A box that starts on 128 bytes is the biggest lever (5x5: 92 -> 97 % of copy), 32 bytes is better at 7x7, where the
// larger box would cost resident blocks (90 against 92 %); rows per warp 8 for 3x3 and 5x5, 10 for 7x7 (88 -> 89 %).
// All measured on one NVIDIA H200, float32 8192^2.
// Beyond 7x7 six rows: 9x9 67 us, five 67, eight 71, ten 78; 15x15 150, 153, 154, 167 (4096^2).
constexpr TileShape tile_shape(int bytes, int kh, int kw) {
  const int k = kh > kw ? kh : kw;
  if (k > 7) return {.lane_pixels = lane_pixels(bytes, kh, kw), .rows = 6, .pad = bytes == 1 || kw > 17 ? 16 : 8};
  const int pad_bytes = k < 6 && bytes == 4 ? 128 : 32;
  return {
      .lane_pixels = lane_pixels(bytes, kh, kw), .rows = bytes == 4 ? (kh == 7 ? 10 : 8) : 6, .pad = pad_bytes / bytes};
}

// ---- REG: output rows of one warp (float32 8192^2 on one NVIDIA H200: 3x3 5 rows 98 %; 5x5 10 rows 96 %; 16-bit 3x3
// 6 rows 97 %)

constexpr int reg_rows(int bytes, int k) { return bytes == 2 ? 6 : k == 3 ? 5 : 10; }
constexpr int kRegWarps = 4;

// What TILE and REG need of a problem. Offsets inside a plane fit into 32 bits only where the stride does: rows are
// addressed with 64 bits.
struct PlaneArgs {
  PlaneGeometry planes;
  TileOrder order;
  int lead;              // the grid of tiles starts this many columns left of the output
  unsigned multiplier;   // output channels per input channel
  int shift_y, shift_x;  // input position of the window's middle tap, less the output position
  Border border;
  float value;
  int64_t taps_n, taps_c;  // strides of the window
  const float* bias;
  bool vector_in;  // input rows are 16-byte aligned
  Neighbours beside;
};

// ---- WINDOW: a tile of 128 columns x 32 rows and its halo in shared memory, in the accumulation dtype, beside the
// taps

// float32 4096^2 on one NVIDIA H200: 9x9 255 us, 15x15 460, 31x31 1615 (GENERAL 818, 2011, 7953).
constexpr int kWindowColumns = 128, kWindowRows = 8, kWindowWarps = 4;

struct WindowShape {
  int64_t pitch, rows, tap_pitch;  // of the tile and of a row of taps, in elements
  int64_t bytes;                   // of shared memory
};

struct WindowArgs {
  Direct p;
  Neighbours beside;
  int pitch, rows, tap_pitch;  // of the tile and of a row of taps, in elements
  int tiles_x, tiles_y;
  int in_per_group, out_per_group;
};

// ---- COLUMN: windows of width 1. A warp computes 32 * column_pixels columns x kColumnRows rows; the warps of a block
// are stacked in y, the tiles of a strip of kStripTiles follow each other in raster order.

constexpr int kColumnRows = 8, kColumnWarps = 8, kStripTiles = 64;

struct ColumnArgs {
  const void* in;
  Image out;
  int64_t in_n, in_c;  // strides
  unsigned row_bytes;  // from row to row of the input
  int h, kh, pad;
  unsigned tiles_x, tiles_y;
  unsigned channels_out, multiplier;
  Border border;
  double value;
  int64_t taps_n, taps_c;
  const void* bias;
};

}  // namespace torch_conv::direct2d
