// TILES: the template argument and the parameters of its kernel.
#pragma once

#include "core/tma.h"

namespace torch_conv::depthwise {

// A kernel is compiled for each shape. A thread computes px pixels of ry rows.
struct TilesPolicy {
  int kh, kw, stride_y, stride_x, dilation_y, dilation_x;
  int first;  // columns from a vector of 16 bytes in shared memory to the first input column of a strip
  int px, ry;
  int load, store;        // bytes of vectors that are loaded (0: by bulk tensor copies) and stored
  bool staged;            // shared memory holds the results of a block, whose planes are contiguous
  int threads, resident;  // of a block; blocks of a multiprocessor
  // Windows of more taps are read from shared memory, one row at a time.
  static constexpr int kMostInRegisters = 49;
  constexpr bool in_registers() const { return kh * kw <= kMostInRegisters && ry * kh * kw * px <= 2200; }
  // The footprint of a thread's outputs, in pixels.
  constexpr int columns() const { return (px - 1) * stride_x + (kw - 1) * dilation_x + 1; }
  constexpr int rows() const { return (ry - 1) * stride_y + (kh - 1) * dilation_y + 1; }
  // Taps in shared memory, in elements. A row starts on 16 bytes where the window is read one row at a time.
  constexpr int tap_pitch() const { return in_registers() ? kw : (kw + 3) / 4 * 4; }
  constexpr int tap_slot() const { return (kh * tap_pitch() + 3) / 4 * 4; }
};

// Offsets of a plane of the block, in elements, and its output channel.
struct TilesPosition {
  int64_t in, out;
  int channel, unused;
};

// Division of numbers below 2^10. With FastDivisor ptxas gives 7x7 in half precision 128 registers instead of 72.
struct SmallDivisor {
  int divisor;
  unsigned factor;

  static SmallDivisor of(int divisor) { return {divisor, ((1u << 20) + divisor - 1) / divisor}; }
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
  // Loads of a tile: `rows` rows of `vectors` vectors. The first row and column count from the first output's pixel.
  int first_row, first_column, rows;
  SmallDivisor vectors;
  int step_rows, step_vectors;  // from a thread's vector to its next one
  int lead;                     // columns in shared memory left of the first output's pixel; whole vectors of 16 bytes
  int skip;                     // columns left of the first column that the first strip reads
  int box_bytes;                // of a plane's bulk copy
  int pitch, slot;              // elements from a row to the next one, from a plane to the next one
  int taps_at, positions_at, results_at;  // offsets in shared memory, in bytes
};

}  // namespace torch_conv::depthwise
