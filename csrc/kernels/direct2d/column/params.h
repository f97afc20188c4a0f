// COLUMN: the shape of its tiles, and the parameters of its kernel.
#pragma once

#include "core/problem.h"
#include "core/taps.h"

namespace torch_conv::direct2d {

// A warp computes kColumnRows rows. The warps of a block are one above the other. The tiles of a strip of kStripTiles
// follow each other in raster order.
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
