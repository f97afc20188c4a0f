// What this kernel family's launches and kernels agree on.
#pragma once

#include "core/tile.h"

namespace torch_conv::weight_gradient {

constexpr int kThreads = 128;

// What a kernel is compiled for: `taps_y` rows of `taps_x` taps each, at steps of `step_y` and `step_x`; a thread takes
// `columns` outputs of a row, and `unit` pixels a load, which begin `lead` pixels before the first that a window sees.
struct Shape {
  int taps_y, taps_x, step_y, step_x, columns, unit, lead;
  // Rows of `grad` that one row of the image meets.
  constexpr int kept() const { return (taps_y + step_y - 1) / step_y; }
  // Pixels of an image's row, in whole units.
  constexpr int span() const { return (lead + (columns - 1) * step_x + taps_x + unit - 1) / unit * unit; }
};

// Steps down an image, `shift` rows of zeros above it: step q takes the image's rows q * step - shift and on, and
// row q of `grad`.
struct Streamed {
  int first, end;
  TC_HD static Streamed of(int shift, int step, int in_rows, int grad_rows, int kept) {
    const int last = in_rows - 1 + shift;
    const int first = shift > 0 ? shift / step : 0, end = last < 0 ? 0 : last / step + 1;
    return {first, end < grad_rows + kept - 1 ? end : grad_rows + kept - 1};
  }
  // The same with every row of `grad` in it or among the `kept - 1` before it, as the bias needs.
  TC_HD Streamed with_all_rows(int kept) const { return {first < kept ? first : 0, end}; }
  TC_HD int steps() const { return end > first ? end - first : 0; }
};

struct SumsArgs {
  const void *in, *grad;
  float* sums;                              // of each block: channels x (taps of the window, bias)
  unsigned in_n, in_c, in_h, in_w;          // strides
  unsigned grad_n, grad_c, grad_h, grad_w;  // strides
  int in_rows, in_columns, grad_rows, grad_columns;
  int pad_y, pad_x;
  int channels, taps_y;  // of `grad`; rows of the whole window
  int band;              // steps of one item
  unsigned items;        // in all: strips of columns, bands, images
  FastDivisor strips, bands, multiplier;
};

// FINISH: so many threads add up one number, each a part of the blocks.
constexpr int kPartials = 8;

struct FinishArgs {
  const float* sums;
  void *weight, *bias;
  int blocks, taps;  // of the window
  unsigned count;    // numbers of a block
  FastDivisor each;  // taps and bias of a channel
};

}  // namespace torch_conv::weight_gradient
