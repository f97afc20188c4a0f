// MMA: the shape of its tiles and matrices, the template argument of its kernels, and their parameters.
#pragma once

#include "core/geometry.h"
#include "core/peer_rows.h"
#include "core/tile_order.h"

namespace torch_conv::direct2d {

// The largest window's rows and columns.
constexpr int kMmaMost = 31;
// Matrices of taps that registers hold at once; 7x7 for each of four channels has 20. For a larger window, registers
// hold three pairs of rows: then registers suffice for 31x31. Other numbers were not measured.
constexpr int mma_at_once(int windows) { return windows > 1 ? 20 : 18; }
constexpr int kPairsAtOnce = 3;

// Parts of a tap: a tap of float32 is a sum of numbers of the image's dtype. Two of float16 hold 22 bits of a scaled
// tap, three of bfloat16 24. One part would round taps as coarsely as results, and outputs of windows that cancel far
// more. A narrow tap is one part.
constexpr int mma_parts(bool float16, bool narrow) { return narrow ? 1 : float16 ? 2 : 3; }

// A row of the left matrix holds the pixels under a patch of patch_h x patch_w = 8 outputs. One mma takes two rows of 8
// columns of them. Lane group g = lane / 4 has warp_w() / 8 columns of outputs, cut into patches. A pair of patches is
// a subtile: rows g and g + 8 of the left matrix. A warp computes all interleaved channels, each from its own matrices.
struct MmaShape {
  int kh, kw;
  int channels, windows;  // interleaved channels of a pixel; windows: one for all channels, or one each
  int patch_h, patch_w;
  int pairs, spans;  // of rows and of 8 columns in the footprint of a patch
  int group;         // pairs of rows whose taps registers hold at once: all, or a part
  int height;        // rows of a warp's outputs, of warp_w() columns each

  static constexpr int align = 16;  // a box, or each of its rows in memory, starts on a multiple of so many elements

  constexpr int width() const { return channels > 1 ? 128 : 256; }
  constexpr int warp_w() const { return channels > 1 ? 16 * patch_w : 64; }
  constexpr int warps() const { return width() / warp_w(); }  // in a row of the tile

  constexpr int mmas() const { return group * spans; }
  constexpr int groups() const { return pairs / group; }
  constexpr int tiles() const { return warp_w() / (16 * patch_w); }  // subtiles of a warp's columns
  constexpr int sets() const { return tiles() * channels; }          // of sums
  constexpr int steps() const { return height / patch_h; }
  // True if loads run a pair of rows ahead.
  constexpr bool ahead() const { return groups() == 1 && spans <= 2; }
  // Registers of a lane for taps, sums, and pixels of two pairs of rows, or of a span of one.
  constexpr int held(int parts) const {
    const int steps_at_once = groups() > 1 ? steps() : (2 * group + patch_h - 1) / patch_h;
    return 2 * windows * mmas() * parts + 4 * sets() * (steps_at_once + (ahead() ? 2 * spans : 1));
  }
  constexpr int warp_pairs() const { return height / 2 + group - patch_h / 2; }
  // True if spans hold a window that starts one column before an odd column of the box. Its matrices are then shifted.
  constexpr bool shifts() const { return patch_w + kw <= 8 * spans; }

  constexpr int box_w() const { return (align - 1 + (width() - patch_w + 8 * spans) * channels + 7) / 8 * 8; }
  // Elements that a bulk copy takes as one: a box has at most 256 a side.
  constexpr int pack() const { return channels == 4 ? 4 : 2; }
  constexpr int box_h() const { return height - patch_h + 2 * pairs; }
  // Zeros surround the taps: matrices read beyond the window.
  constexpr int taps_h() const { return 2 * pairs + patch_h - 1; }
  constexpr int taps_w() const { return 8 * spans + patch_w; }
  // Columns from tile to tile. If outputs wait, tiles overlap, so that each stores whole vectors of 16 bytes.
  constexpr int step(bool is_staged) const { return is_staged ? width() - 8 : width(); }
  constexpr int all_taps() const { return taps_h() * taps_w(); }
  // Bytes of shared memory: the box, the windows' taps, a barrier, numbers of every warp, and rows of outputs. Waiting
  // rows start up to 14 bytes behind their pitch. Interleaved channels that do not wait have a warp's rows of a step.
  constexpr int taps_at() const { return 2 * box_w() * box_h(); }
  constexpr int barrier_at() const { return taps_at() + (windows * all_taps() + 1) / 2 * 8; }
  constexpr int waiting_at() const { return (barrier_at() + 8 + 4 * windows * warps() + 15) / 16 * 16; }
  constexpr int waiting_pitch() const { return width() * channels + 8; }
  constexpr int step_pitch() const { return warp_w() * channels + 8; }
  constexpr int shared_bytes(bool is_staged) const {
    const int step_rows = channels > 1 ? warps() * patch_h * step_pitch() : 0;
    return waiting_at() + 2 * (is_staged ? height * waiting_pitch() : step_rows);
  }

  // The pixel of A[m][k] of subtile `h`, from the window's start over the lane group's first output.
  constexpr int pixel_y(int k) const { return k / 8; }
  constexpr int pixel_x(int h, int m, int k) const { return patch_w * (2 * h + m / 8) + k % 8; }
  // The output of D[m][n].
  constexpr int output_y(int n) const { return n / patch_w; }
  constexpr int output_x(int h, int m, int n) const { return patch_w * (2 * h + m / 8) + n % patch_w; }
  // Index of tap (i, j), and of B[k][n]'s tap for a pair of rows and a span of columns. The pixels start `shift`
  // columns before the window.
  constexpr int tap_at(int i, int j) const { return (i + patch_h - 1) * taps_w() + j + patch_w; }
  constexpr int tap_of(int pair, int span, int k, int n, int shift) const {
    return tap_at(2 * pair + k / 8 - n / patch_w, 8 * span + k % 8 - n % patch_w - shift);
  }
};

// The element that register r of a lane (g = lane / 4, q = lane % 4) holds; of A and B the first of two.
struct MmaLane {
  static constexpr int a_m(int g, int r) { return g + 8 * (r % 2); }
  static constexpr int a_k(int q, int r) { return 2 * q + 8 * (r / 2); }
  static constexpr int b_k(int q, int r) { return 2 * q + 8 * r; }
  static constexpr int d_m(int g, int r) { return g + 8 * (r / 2); }
  static constexpr int d_n(int q, int r) { return 2 * q + r % 2; }
};

// Patches of 2x4 or 4x2 outputs, whichever take fewer mma for 128 outputs:
//
//                                      5x5   7x7   9x9   11x11   13x13   15x15   31x31
//     2x4 or 4x2                         3     5    10      12      14      18      68
//     1x8, a row of the window a time    5     7     9      22
//
// float16 8192^2, one NVIDIA H200, us, taps of float16 (of float32); boxes on 128 bytes instead of 32 75.9 and 74.4 at
// 5x5:
//
//                                      5x5           7x7           9x9            15x15
//     16 rows, four warps in a row     71.3 (72.1)   74.0 (82.0)   75.8 (115.7)   144.6 (207.6)
//     24 rows                          71.0 (71.9)   73.0 (76.9)   73.2 (106.8)   126.2 (196.8)
//     32 rows                          70.5 (75.8)   76.4 (80.2)   78.1 (101.9)   114.9 (177.2)
//     24 rows, two by two warps        75.7 (76.0)   76.5 (79.1)   79.5 (109.7)   132.5 (194.5)
constexpr MmaShape mma_shape(int kh, int kw, int channels, int windows) {
  const int flat_pairs = (kh + 2) / 2, flat_spans = (kw + 10) / 8, tall_pairs = (kh + 4) / 2, tall_spans = (kw + 8) / 8;
  const bool flat = flat_pairs * flat_spans <= tall_pairs * tall_spans;
  const int spans = flat ? flat_spans : tall_spans, all = flat ? flat_pairs : tall_pairs;
  const bool at_once = windows * all * spans <= mma_at_once(windows);
  return {.kh = kh,
          .kw = kw,
          .channels = channels,
          .windows = windows,
          .patch_h = flat ? 2 : 4,
          .patch_w = flat ? 4 : 2,
          .pairs = at_once ? all : (all + kPairsAtOnce - 1) / kPairsAtOnce * kPairsAtOnce,
          .spans = spans,
          .group = at_once ? all : kPairsAtOnce,
          .height = !at_once && windows > 1       ? 16
                    : at_once && all * spans > 12 ? 32
                                                  : 24};
}

// Template argument of MMA's kernels: the window, and how a tile is loaded and stored.
struct MmaPolicy {
  int kh, kw;
  int channels, windows;  // see MmaShape
  bool bulk;              // one bulk copy loads the box, else copies of single threads
  bool aligned;           // rows of outputs start on 16 bytes and leave from registers, else they wait in shared memory
  bool odd;               // windows start on odd columns of a bulk copy's box: two words hold a word of a matrix
  bool narrow;            // taps have the image's dtype
  constexpr MmaShape shape() const { return mma_shape(kh, kw, channels, windows); }
};

struct MmaArgs {
  PlaneGeometry planes;
  TileOrder order;
  FastDivisor multiplier;  // output channels per input channel
  int pad_y, pad_x;
  Border border;
  float value;
  int64_t taps_n, taps_c;  // strides of the windows
  const float* bias;
  PeerRows peers;
};

}  // namespace torch_conv::direct2d
