// TILE: the shape of its tiles, and the template argument of its kernels.
#pragma once

#include "core/tma.h"
#include "kernels/direct2d/shared/planes.h"

namespace torch_conv::direct2d {

// Windows up to so many rows and columns; larger ones go to WINDOW.
constexpr int kTileMost = 31;
// Bounds of a window's rows and values, dilation included: below them a halo is as small as a tile.
constexpr int kMostHaloRows = 128, kMostHaloValues = 257;
// Taps that a lane holds in registers; larger windows stay in shared memory.
constexpr int kTapsAtOnce = 50;
constexpr bool taps_in_registers(int kh, int kw) { return kh * kw < kTapsAtOnce; }
// Rows of a larger window that one pass over the tile adds.
constexpr int tap_group(int kh, int kw) {
  const int most = kTapsAtOnce / kw, groups = (kh + most - 1) / most;
  return (kh + groups - 1) / groups;
}
// A row of taps in shared memory, in floats.
constexpr int tile_tap_pitch(int kw) { return (kw + 3) / 4 * 4; }

// True if shared memory holds the taps, after the box.
constexpr bool taps_in_shared(const PlaneWindow& w) { return w.channel_windows || !taps_in_registers(w.kh, w.kw); }
constexpr int shared_taps(const PlaneWindow& w) {
  if (w.by_words) return w.channel_windows * w.kh * w.kw;
  return taps_in_shared(w) ? (w.channel_windows ? w.channel_windows : 1) * w.kh * tile_tap_pitch(w.kw) : 0;
}

// True if a block computes a tile one channel after the other. Else a lane owns whole pixels: their larger windows need
// more taps than there are uniform registers. Percent of copy, 8x3x1080x1920, one NVIDIA H200:
//
//                        3x3   5x5   7x7
//     channels  float32   94    91    60
//               float16   64    37    24
//               uint8     48    25    14
//     pixels    float16   91
//               uint8     64
//
constexpr bool by_channels(int in_bytes, const PlaneWindow& w) {
  return w.channel_windows && !w.by_words && (in_bytes == 4 || w.channel_windows * w.kh * w.kw > kTapsAtOnce);
}
// Outputs of a lane where a block computes one channel: a box of 256 words holds their pixels and the halo.
constexpr int channel_outputs(int in_bytes, int channels) {
  const int two = 64 * channels * in_bytes;  // bytes of a warp's pixels, two a lane
  return two <= 384 ? 4 : two <= 768 ? 2 : 1;
}
// Outputs of a lane that owns whole pixels: four of three channels, whose bytes are whole words, or 8.
constexpr int pixel_outputs(int channels) { return channels == 3 ? 12 : 8; }
// Values of one load: a lane's first value is a multiple of so many.
constexpr int lane_chunk(int values, int bytes) {
  int chunk = 16 / bytes;
  while (values % chunk) chunk /= 2;
  return chunk;
}

// Outputs of one lane: 16 bytes of the wider of its sides, or fewer where larger windows need the registers.
constexpr int lane_values(int in_bytes, int out_bytes, const PlaneWindow& w) {
  if (w.by_words) return in_bytes < 4 ? 8 : 4;
  if (by_channels(in_bytes, w)) return channel_outputs(in_bytes, w.channel_windows);
  if (w.channel_windows) return pixel_outputs(w.channel_windows);
  const int in = in_bytes * w.stride, most = 16 / (in > out_bytes ? in : out_bytes), k = w.kh > w.kw ? w.kh : w.kw;
  if (!taps_in_registers(w.kh, w.kw) || k > 7) return 4 / w.stride;
  return in_bytes == 1 && k > 3 && most > 8 ? 8 : most;
}

// True if a lane's columns are 32 apart. A warp then reads and writes neighbouring 4-byte values, wherever rows start.
constexpr bool spread_columns(int in_bytes, int out_bytes, bool aligned) {
  return in_bytes == 4 && out_bytes == 4 && !aligned;
}

// True if unaligned rows of outputs wait in shared memory, and leave as vectors of 16 bytes. Spread columns may also
// leave directly. float32 of 7x3x1081x1917, us on one NVIDIA H200, directly and by vectors: 3x3 96, 91; 5x5 103, 112.
constexpr bool rows_wait(int in_bytes, int out_bytes, const PlaneWindow& w, bool aligned) {
  return !aligned && !(spread_columns(in_bytes, out_bytes, aligned) && w.kh * w.kw > 9);
}

// A tile: four warps are one above the other. One warp covers 32 * lane_values columns, or as many pixels where a block
// computes one channel after the other.
struct PlaneTileShape {
  int lane_values;
  int rows;  // output rows of a warp
  int pad;   // columns that the box has left and right of the tile
  int stride;
  int spare;       // columns behind a row of shared memory
  int overlap;     // columns that the next tile also computes: each tile then stores whole vectors of 16 bytes
  bool is_staged;  // rows of outputs wait in shared memory
  int pixel;       // columns from output to output: the channels where a block computes one after the other, else 1
  static constexpr int warps = 4;
  constexpr int covered() const { return 32 * lane_values * pixel; }
  constexpr int width() const { return covered() - overlap; }
  constexpr int height() const { return warps * rows; }
  constexpr int columns() const { return covered() * stride + 2 * pad; }
  constexpr int pitch() const { return columns() + spare; }
  constexpr int box_rows(const PlaneWindow& w) const { return (height() - 1) * stride + w.rows(); }
  constexpr int box_bytes(int bytes, const PlaneWindow& w) const { return pitch() * box_rows(w) * bytes; }
  // A row of a warp's outputs that waits, with 16 spare bytes at either end. Each warp has two.
  constexpr int stage_bytes(int out_bytes) const { return covered() * out_bytes + 32; }
  constexpr int shared_bytes(int in_bytes, int out_bytes, const PlaneWindow& w) const {
    return box_bytes(in_bytes, w) + 4 * shared_taps(w) + (is_staged ? 2 * warps * stage_bytes(out_bytes) : 0);
  }
};

// Bytes of shared memory that a bulk copy's barrier takes. The box behind it starts on a multiple of as many.
constexpr int kBarrierBytes = 128;

// Boxes start on 128 bytes, which speeds bulk copies most. At 7x7 the larger box would cost resident blocks. One NVIDIA
// H200, float32:
//
//     8192^2, % of copy   box on 128 bytes, on 32: 5x5 97, 92; 7x7 90, 92     10 rows a warp, 8: 7x7 89, 88
//                         stride 2, half the rows: 3x3, 5x5, 7x7 95, 93, 86 (other rows were not measured)
//     4096^2, us          5, 6, 8, 10 rows a warp: 9x9 67, 67, 71, 78; 15x15 153, 150, 154, 167
constexpr PlaneTileShape tile_shape(int in_bytes, int out_bytes, const PlaneWindow& w, bool bulk, bool aligned) {
  const int k = w.kh > w.kw ? w.kh : w.kw, values = lane_values(in_bytes, out_bytes, w);
  const int vector = 16 / in_bytes, halo = (w.left() > w.right() ? w.left() : w.right()) + vector - 1;
  const bool channels = by_channels(in_bytes, w), pixels = w.channel_windows && !w.by_words && !channels;
  const int pixel = channels ? w.channel_windows : 1, bytes = 32 * values * pixel * in_bytes * w.stride;
  const int least = halo / vector * vector, wide = (k < 6 && bytes >= 512 ? 128 : 32) / in_bytes;
  const int many = in_bytes == 4 || (in_bytes == 2 && !bulk) || (in_bytes == 1 && k > 3 && k < 6) ? 8 : 6;
  const int rows = k > 7 || channels || pixels ? 6 : in_bytes == 4 && w.kh == 7 ? 10 : many;
  const bool fills_vectors = 16 % (values * out_bytes) == 0;
  const bool is_staged =
      !channels && (pixels ? !aligned || !fills_vectors : rows_wait(in_bytes, out_bytes, w, aligned));
  const int pad = k > 7 ? (in_bytes == 1 || w.kw > 17 ? 16 : 8) : wide;
  // Vectors of 16 bytes of both sides, and whole pixels of three channels.
  const int overlap = 16 / (in_bytes < out_bytes ? in_bytes : out_bytes) * (pixels && w.channel_windows == 3 ? 3 : 1);
  return {.lane_values = values,
          .rows = rows / w.stride,
          .pad = !bulk || pad < least ? least : pad,
          .stride = w.stride,
          .spare = bulk ? 0 : kRowStart / in_bytes,
          .overlap = is_staged && !aligned ? overlap : 0,
          .is_staged = is_staged,
          .pixel = pixel};
}

// Template argument of TILE's kernels: the window, and how a tile is loaded and stored.
struct TilePolicy {
  int kh, kw, dilation_y, dilation_x, stride;  // see PlaneWindow
  bool bulk;                                   // one bulk copy loads the box, else copies of single threads
  bool aligned;                                // rows of outputs start on 16 bytes
  bool bias;
  bool groups;          // the dilation_x values of a pixel are a group of channels, which is an image of its own
  int channel_windows;  // see PlaneWindow
  constexpr PlaneWindow window() const {
    return {kh, kw, dilation_y, dilation_x, stride, channel_windows, groups && channel_windows};
  }
};

}  // namespace torch_conv::direct2d
