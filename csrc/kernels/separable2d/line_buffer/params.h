// LINE_BUFFER: separable filters of any size, stride, dilation, layout, border and dtype.
#pragma once

#include "core/line_buffer.h"
#include "kernels/separable2d/shared/taps.h"

namespace torch_conv::separable2d {

// Neighbouring outputs of a thread in either pass. At stride 1 or 2 and dilation 1 they read the same elements, and
// registers hold these. us, one NVIDIA H200, outputs of a thread x blocks per multiprocessor (8 x 4 and 16 x 3 spill):
//
//                                          16 x 2   16 x 3   8 x 3   8 x 4
//     uint16   8x2048x2048        5x5         125      149     136     163
//     int16    120x512x512        9x9         138      168     155     162
//     float16  8x3x1024x1023      17x17       135      150     154     177
//     uint16   4x2048x2048        63x63       254      209     252     272
constexpr int line_reuse(int stride, int acc_bytes) { return stride == 1 && acc_bytes == 4 ? 16 : 8; }
constexpr int line_blocks(int stride, int acc_bytes) { return stride > 0 || acc_bytes == 8 ? 2 : 3; }

// Pixels are a multiple of the outputs of a thread.
struct LineTile : LineRow {
  int lines;  // row results under the windows of a step's outputs
  int kept;   // of these, the ones that belong to the next step, too
  int steps;  // of a strip

  constexpr int columns() const { return planes * pixels * channels; }
  constexpr int line_pitch() const { return columns() | 1; }
  // In shared memory: taps along x, taps along y, the box, the lines, weights of rows, the columns of a tile row.
  constexpr int box_elements(const Placement& at) const {
    return kLineRows * pitch() + (at.dilation_x == 1 ? kLineBeyond * channels : 0);
  }
  constexpr int line_elements(const Placement& at) const {
    return (lines + (at.dilation_y == 1 ? kLineBeyond : 0)) * line_pitch();
  }
};

struct LineParams {
  Image in, out;
  Placement place;
  int kh, kw;
  LineTile tile;
  unsigned tiles_x, tiles_y, channel_blocks;
  PassTaps taps;
};

static_assert(sizeof(LineParams) + sizeof(void*) <= 4096, "kernel parameters beyond 4 KiB");

}  // namespace torch_conv::separable2d
