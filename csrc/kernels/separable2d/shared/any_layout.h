// Tiles and parameters of the variants for any size, stride, dilation, layout and border.
#pragma once

#include "core/problem.h"
#include "kernels/separable2d/shared/taps.h"

namespace torch_conv::separable2d {

constexpr int kRowBlock = 32;  // input rows of one row pass: one per lane
constexpr int kWarps = 8;      // warps of a block
constexpr int kBlocks = 3;     // per multiprocessor: caps the registers at 80; asked nothing, ptxas spills at 64
constexpr int kReuse = 8;     // neighbouring outputs of one thread, in the row pass along x, in the column pass along y
constexpr int kSegments = 2;  // row-pass segments of kReuse outputs per warp
constexpr int kColumns = kWarps * kSegments * kReuse;  // tile width: pixels x channels
constexpr int kStaged = 2 * kColumns;                  // staged input row: pixels x channels

constexpr int kColumnRows = 16;  // TWO_PASS: output rows of one thread of the column pass ...
constexpr int kTwoPassRows = 32 * kWarps / kColumns * kColumnRows;  // ... and of a block of it

struct GeneralTile {
  int channels;  // interleaved channels of a tile row, else 1
  int pixels;    // output pixels of a tile row; pixels * channels <= kColumns
  int taps;      // row taps that one staging of the input serves
  int span;      // staged input pixels
  int pitch;     // staged elements of a row; odd, so that lanes on 32 rows hit 32 banks

  constexpr int columns() const { return pixels * channels; }
  constexpr int columns_pitch() const { return columns() | 1; }
  constexpr int stage_elements() const { return kRowBlock * pitch; }
};

struct GeneralParams {
  Image in, out;
  Placement place;
  int kh, kw;
  GeneralTile tile;
  bool reuse_x, reuse_y;  // stride == dilation
  unsigned tiles_x, tiles_y, channel_blocks;
  PassTaps taps;
};

static_assert(sizeof(GeneralParams) + sizeof(void*) <= 4096, "kernel parameters beyond 4 KiB");

}  // namespace torch_conv::separable2d
