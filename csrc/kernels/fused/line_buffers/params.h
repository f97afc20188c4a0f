// LINE_BUFFERS: whole chains of any windows, dtype, layout and border. The kernel's parameters, and its shared memory.
#pragma once

#include "core/line_buffer.h"

namespace torch_conv::fused {

// Elements of a tile row that a stage makes at most: in the column pass a thread makes V rows of one, in the row pass
// a warp V of each of 32 rows.
constexpr int line_columns(int v) { return kLineWarps * v; }
// Of a line. Odd, so that lanes on 32 rows hit 32 banks, and constant, so that it is an operand of loads.
constexpr int line_pitch(int v) { return line_columns(v) + 1; }

// Blocks of a multiprocessor.
constexpr int line_blocks(int v, int acc_bytes) { return v == 16 || acc_bytes == 8 ? 2 : 3; }

// A window's taps along one axis: in device memory, or if that is null in the parameters from byte `start` on.
struct WindowTaps {
  const void* device;
  int start;
};

// A stage. Its box and its lines are in shared memory, at numbers of elements of the accumulation type.
struct LineStage {
  Point point;
  int windows, kh, kw;  // `thin`: no window, 3 and 3
  double number;
  int before_y, before_x;         // halos of the stages before
  int pixels;                     // that it makes of a tile row of a plane
  int input_fields;               // images that it reads: the outputs of the stage before
  int line_fields;                // a window's row results, and for `sharpen` the pixels under the windows' middles
  int taps;                       // of window 0 along x and along y, of window 1 ...
  int box, box_pitch, box_field;  // kLineRows rows of each image that it reads; `thin` has them as new lines
  int lines, line_field;          // kept() lines of the step before, then kLineRows new ones
  int segments, segment;          // of its row pass: how many, and the first

  constexpr int radius_y() const { return kh / 2; }
  constexpr int radius_x() const { return kw / 2; }
  constexpr int kept() const { return kh - 1; }
  constexpr int window_taps() const { return tap_elements(kw) + tap_elements(kh); }
};

// V pixels of a tile row that a warp makes of 32 rows at a time.
struct alignas(16) Segment {
  static constexpr int kCopy = -1;
  int from, to;          // elements from the start of the box's row, and from that of the line
  int taps;              // of the window along x, or kCopy: the pixels themselves
  int16_t first, count;  // pixel of the stage's input under the first tap; pixels of the V that are there
};

struct LineChain : LineRow {
  int count;           // of stages
  int halo_y, halo_x;  // of all stages
  int steps;           // of a strip
  int rows;            // of outputs, of a strip
  // Shared memory: segments, where a column's outputs go, elements, and where those of a tile row come from.
  int segments, elements;
  LineStage stages[Fused::kMost];
};

constexpr int kChainTapBytes = 1024;  // four windows' largest

struct LineBuffersParams {
  Image in, out;
  int64_t stride_output;
  Placement place;
  bool valid;
  LineChain tile;
  unsigned tiles_x, tiles_y, channel_blocks;
  WindowTaps taps_x[Fused::kMost][Stage::kMost], taps_y[Fused::kMost][Stage::kMost];
  alignas(16) unsigned char bytes[kChainTapBytes];
};

static_assert(sizeof(LineBuffersParams) + sizeof(void*) <= 4096, "kernel parameters beyond 4 KiB");

}  // namespace torch_conv::fused
