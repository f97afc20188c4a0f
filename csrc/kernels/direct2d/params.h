// What the host and the kernels of this kernel family agree on: the shapes of tiles, and the kernels' parameters.
#pragma once

#include "core/geometry.h"
#include "core/neighbours.h"
#include "core/problem.h"
#include "core/taps.h"
#include "core/tile.h"
#include "core/tma.h"

namespace torch_conv::direct2d {

// ---- TILE ------------------------------------------------------------------------------------------------------

// The default anchor: the tap of k that lies on the output pixel. A tile places its halo by this tap.
constexpr int middle_of(int k) { return (k - 1) / 2; }

// Windows up to so many rows and columns; larger ones go to WINDOW.
constexpr int kTileMost = 31;
// Rows and values from their first tap to their last, below which a halo is as small as a tile.
constexpr int kMostHaloRows = 128, kMostHaloValues = 257;
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

// A window as its taps lie on an image: in rows whose `channels` lie side by side, tap j lies j * channels values
// further, times the dilation. Neighbouring outputs read `stride` rows or values apart.
struct TileWindow {
  int kh, kw;
  int step_y, step_x;  // from tap to tap, in rows and in values
  int stride;
  // Channels that have a window each: of few, a lane owns whole pixels, or a tile is made one channel after the other,
  // so that all lanes have the same taps; of a group of them (`words`), lanes own words, whose windows they hold.
  int own = 0;
  bool words = false;

  constexpr int left() const { return middle_of(kw) * step_x; }
  constexpr int right() const { return (kw - 1) * step_x - left(); }
  constexpr int above() const { return middle_of(kh) * step_y; }
  constexpr int rows() const { return (kh - 1) * step_y + 1; }
};

// Do the taps stand in shared memory, behind the box?
constexpr bool taps_in_shared(const TileWindow& w) { return w.own || !taps_in_registers(w.kh, w.kw); }
constexpr int shared_taps(const TileWindow& w) {
  if (w.words) return w.own * w.kh * w.kw;
  return taps_in_shared(w) ? (w.own ? w.own : 1) * w.kh * tile_tap_pitch(w.kw) : 0;
}

// Is a tile made one channel after the other? One NVIDIA H200, 8x3x1080x1920, of copy, 3x3, 5x5, 7x7: so float32 94,
// 91, 60 %, float16 64, 37, 24, uint8 48, 25, 14; by whole pixels float16 3x3 91, uint8 64. Whole pixels of larger
// windows want more taps than there are uniform registers, and spill.
constexpr bool by_channels(int in_bytes, const TileWindow& w) {
  return w.own && !w.words && (in_bytes == 4 || w.own * w.kh * w.kw > kTapsAtOnce);
}
// Outputs of a lane where one channel is made: so many that a box of 256 words brings their pixels and the halo.
constexpr int channel_outputs(int in_bytes, int own) {
  const int two = 64 * own * in_bytes;  // bytes of a warp's pixels, two a lane
  return two <= 384 ? 4 : two <= 768 ? 2 : 1;
}
// Outputs of a lane that owns whole pixels: four of three channels, whose bytes are whole words, or 8.
constexpr int pixel_outputs(int own) { return own == 3 ? 12 : 8; }
// Values that are loaded as one, so that they are aligned wherever a lane's start.
constexpr int lane_chunk(int values, int bytes) {
  int chunk = 16 / bytes;
  while (values % chunk) chunk /= 2;
  return chunk;
}

// Outputs of one lane: 16 bytes of the wider of its sides, or what the registers hold of a window's sums.
constexpr int lane_values(int in_bytes, int out_bytes, const TileWindow& w) {
  if (w.words) return in_bytes < 4 ? 8 : 4;
  if (w.own) return by_channels(in_bytes, w) ? channel_outputs(in_bytes, w.own) : pixel_outputs(w.own);
  const int in = in_bytes * w.stride, most = 16 / (in > out_bytes ? in : out_bytes), k = w.kh > w.kw ? w.kh : w.kw;
  if (!taps_in_registers(w.kh, w.kw) || k > 7) return 4 / w.stride;
  return in_bytes == 1 && k > 3 && most > 8 ? 8 : most;
}

// Do a lane's columns lie 32 apart? So a warp reads and writes 4-byte values side by side, wherever rows start.
constexpr bool spread_columns(int in_bytes, int out_bytes, bool aligned) {
  return in_bytes == 4 && out_bytes == 4 && !aligned;
}

// Do rows of outputs that start anywhere wait in shared memory, and go out as vectors of 16 bytes? Spread columns may
// also leave as they are: float32 of 7x3x1081x1917 3x3 96 us so, 91 by words, 5x5 103 and 112; one NVIDIA H200.
constexpr bool waiting_rows(int in_bytes, int out_bytes, const TileWindow& w, bool aligned) {
  return !aligned && !(spread_columns(in_bytes, out_bytes, aligned) && w.kh * w.kw > 9);
}

// Output rows per warp, and the columns loaded left and right of the tile. One warp covers 32 * lane_values columns, or
// pixels where one channel is made after the other; four warps lie one above the other.
struct TileShape {
  int lane_values, rows, pad;
  int stride;
  int spare;    // columns behind a row of shared memory
  int overlap;  // columns that the next tile makes, too, so that each stores whole vectors of 16 bytes
  bool waits;   // rows of outputs wait in shared memory
  int pixel;    // columns from an output to the next: the channels where one is made after the other, else 1
  static constexpr int warps = 4;
  constexpr int covered() const { return 32 * lane_values * pixel; }
  constexpr int width() const { return covered() - overlap; }
  constexpr int height() const { return warps * rows; }
  constexpr int columns() const { return covered() * stride + 2 * pad; }
  constexpr int pitch() const { return columns() + spare; }
  constexpr int box_rows(const TileWindow& w) const { return (height() - 1) * stride + w.rows(); }
  constexpr int box_bytes(int bytes, const TileWindow& w) const { return pitch() * box_rows(w) * bytes; }
  // A row of a warp's outputs that waits to be stored, twice; with 16 bytes to spare at either end.
  constexpr int stage_bytes(int out_bytes) const { return covered() * out_bytes + 32; }
  constexpr int shared_bytes(int in_bytes, int out_bytes, const TileWindow& w) const {
    return box_bytes(in_bytes, w) + 4 * shared_taps(w) + (waits ? 2 * warps * stage_bytes(out_bytes) : 0);
  }
};

// What the barrier of a bulk copy takes of shared memory, before a box that starts on as many bytes.
constexpr int kBarrierBytes = 128;

// A box that starts on 128 bytes is the biggest lever (5x5: 92 -> 97 % of copy), 32 bytes is better at 7x7, where the
// larger box would cost resident blocks (90 against 92 %); rows per warp 8 for 3x3 and 5x5, 10 for 7x7 (88 -> 89 %).
// All measured on one NVIDIA H200, float32 8192^2.
// Beyond 7x7 six rows: 9x9 67 us, five 67, eight 71, ten 78; 15x15 150, 153, 154, 167 (4096^2). At stride 2 half as
// many (boxes as large): 3x3, 5x5, 7x7 95, 93, 86 % of the bytes' time; others were not measured.
constexpr TileShape tile_shape(int in_bytes, int out_bytes, const TileWindow& w, bool bulk, bool aligned) {
  const int k = w.kh > w.kw ? w.kh : w.kw, values = lane_values(in_bytes, out_bytes, w);
  const int word = 16 / in_bytes, halo = (w.left() > w.right() ? w.left() : w.right()) + word - 1;
  const bool channels = by_channels(in_bytes, w), pixels = w.own && !w.words && !channels;
  const int pixel = channels ? w.own : 1, bytes = 32 * values * pixel * in_bytes * w.stride;
  const int least = halo / word * word, wide = (k < 6 && bytes >= 512 ? 128 : 32) / in_bytes;
  const int many = in_bytes == 4 || (in_bytes == 2 && !bulk) || (in_bytes == 1 && k > 3 && k < 6) ? 8 : 6;
  const int rows = k > 7 || channels || pixels ? 6 : in_bytes == 4 && w.kh == 7 ? 10 : many;
  const bool whole = 16 % (values * out_bytes) == 0;
  const bool waits = !channels && (pixels ? !aligned || !whole : waiting_rows(in_bytes, out_bytes, w, aligned));
  const int pad = k > 7 ? (in_bytes == 1 || w.kw > 17 ? 16 : 8) : wide;
  return {.lane_values = values,
          .rows = rows / w.stride,
          .pad = !bulk || pad < least ? least : pad,
          .stride = w.stride,
          .spare = bulk ? 0 : kRowStart / in_bytes,
          // Whole pixels of three channels, too.
          .overlap = waits && !aligned
                         ? 16 / (in_bytes < out_bytes ? in_bytes : out_bytes) * (pixels && w.own == 3 ? 3 : 1)
                         : 0,
          .waits = waits,
          .pixel = pixel};
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
  int lead;                 // the grid of tiles starts this many columns left of the output
  unsigned multiplier;      // output channels per input channel
  int shift_y, shift_x;     // input position of the window's middle tap over output 0
  int channels;             // of a pixel that lie side by side in a row
  int in_pixel, out_pixel;  // how far the next pixel's lie
  Border border;
  float value;
  int64_t taps_n, taps_c;  // strides of the window
  const float* bias;
  Neighbours peers;
};

// ---- CHANNELS: blocks of kChannelThreads words of channels; a strip has up to kChannelRows rows, a thread's
// neighbours own up to kChannelWords words of the same pixel. One NVIDIA H200, of copy, with a window for every channel
// (TILE; cuDNN, channels_last), 3x3: float32 of 8x4x1080x1920 80 % (63; 68), of 8x8x1080x1920 83 (83; 73). No other
// numbers of threads, rows or words were measured. Where TILE serves larger windows or narrow values it is ahead: see
// by_channels and channel_group.

constexpr int kChannelThreads = 128, kChannelRows = 64, kChannelWords = 8, kChannelOwnTaps = 25;

struct ChannelArgs {
  const void* in;
  void* out;
  int64_t in_n, in_y, out_n, out_y;  // strides
  int in_x, out_x;
  int in_h, in_w, out_h, rows;  // rows of a strip
  unsigned words;               // of a row of outputs
  FastDivisor blocks;           // of such a row
  FastDivisor strips;           // of an image
  FastDivisor group, columns;   // words of a pixel that stand together, outputs of a row
  int pad_y, pad_x;
  Border border;
  float value;
  int64_t taps_n, taps_c;
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
  Neighbours peers;
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
