// What TILES' launch and kernel agree on: how a block's tiles lie in shared memory, and the launch's parameters.
#pragma once

#include "core/tma.h"

namespace torch_conv::depthwise {

// What a kernel is compiled for. A thread computes px pixels of ry rows.
struct TilesWindow {
  int kh, kw, stride_y, stride_x, dilation_y, dilation_x;
  int px, ry;
  // Windows of more taps are read from shared memory, row by row.
  static constexpr int kMostInRegisters = 49;
  constexpr bool in_registers() const { return kh * kw <= kMostInRegisters && ry * kh * kw * px <= 2200; }
  // Input columns and rows that the thread's outputs see.
  constexpr int columns() const { return (px - 1) * stride_x + (kw - 1) * dilation_x + 1; }
  constexpr int rows() const { return (ry - 1) * stride_y + (kh - 1) * dilation_y + 1; }
  // Taps in shared memory: a row starts on 16 bytes where rows are read one by one.
  constexpr int tap_pitch() const { return in_registers() ? kw : (kw + 3) / 4 * 4; }
  constexpr int tap_slot() const { return (kh * tap_pitch() + 3) / 4 * 4; }
};

// Where a plane of a block is read and written, and its output channel.
struct TilesPosition {
  int64_t in, out;
  int channel, unused;
};

// Quotients of numbers below 2^10 by one below 2^10.
struct SmallDivisor {
  int by = 1;
  unsigned factor = 1 << 20;
  SmallDivisor() = default;
  explicit SmallDivisor(int by) : by(by), factor(((1u << 20) + by - 1) / by) {}
  TC_HD int divide(int x) const { return int(unsigned(x) * factor >> 20); }
};

struct TilesArgs {
  const void *in, *weight, *bias;
  void* out;
  int64_t in_n, in_c, in_h;       // strides
  int64_t out_n, out_c, out_h;    // strides
  unsigned planes;                // of outputs
  unsigned channels, multiplier;  // of outputs; output channels an input channel makes
  int h, w, out_h_size, out_w_size;
  int pad_y, pad_x;
  int group;                   // planes of a block
  int tiles_x, tiles_y;        // of a plane
  int tile_w, tile_h;          // outputs
  SmallDivisor units, strips;  // threads of a tile, along x
  // What is loaded of a tile: `rows` of `words`, from this row and column on, seen from the first output's pixel.
  int first_row, first_column, rows;
  SmallDivisor words;
  int step_rows, step_words;  // from a thread's word to its next one
  int lead;                   // columns in shared memory left of the first output's pixel; whole vectors of 16 bytes
  int skip;                   // columns left of those that the first strip reads
  int box_bytes;              // of a plane's bulk copy
  int pitch, slot;            // elements from a row to the next one, from a plane to the next one
  int taps_at, places_at, results_at;  // bytes: of taps, of planes' places, of results that leave together
};

}  // namespace torch_conv::depthwise
