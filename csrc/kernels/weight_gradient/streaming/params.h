// STREAMING: the template argument of its kernel, and the parameters of its kernels.
#pragma once

#include "core/tile_order.h"

namespace torch_conv::weight_gradient {

constexpr int kThreads = 128;

// Template argument of STREAMING's kernel.
struct StreamingPolicy {
  int taps_y, taps_x;      // of a block: rows of taps, and taps of a row
  int stride_y, stride_x;  // strides of the convolution
  int columns;             // outputs of a row that a thread takes
  int unit;                // pixels of a load
  int lead;                // pixels of a load before the first pixel of the footprint
  bool inner;              // channels are innermost: a warp's lanes are channels
  int resident;            // blocks of a multiprocessor
  // Rows of `grad` that a row of the image is multiplied with: a ring in registers.
  constexpr int ring_rows() const { return (taps_y + stride_y - 1) / stride_y; }
  // Pixels of an image's row, in whole units.
  constexpr int span() const { return (lead + (columns - 1) * stride_x + taps_x + unit - 1) / unit * unit; }
};

// Steps down an image. Step q takes row q of `grad`, and `stride` rows of the image from row q * stride - shift on.
struct StepRange {
  int first, end;
  TC_HD static StepRange of(int shift, int stride, int in_rows, int grad_rows, int ring_rows) {
    const int last = in_rows - 1 + shift;
    const int first = shift > 0 ? shift / stride : 0, end = last < 0 ? 0 : last / stride + 1;
    return {first, end < grad_rows + ring_rows - 1 ? end : grad_rows + ring_rows - 1};
  }
  // The bias needs every row of `grad`: as a step's row, or as one of the `ring_rows - 1` rows before the first step.
  TC_HD StepRange with_all_rows(int ring_rows) const { return {first < ring_rows ? first : 0, end}; }
  TC_HD int steps() const { return end > first ? end - first : 0; }
};

struct SumsArgs {
  const void *in, *grad;
  float* sums;                              // blocks x channels x (taps of the window, bias)
  unsigned in_n, in_c, in_h, in_w;          // strides
  unsigned grad_n, grad_c, grad_h, grad_w;  // strides
  int in_rows, in_columns, grad_rows, grad_columns;
  int pad_y, pad_x;
  int channels;    // of `grad`
  int taps_y;      // rows of the whole window
  int band;        // steps of an item
  unsigned items;  // strips of columns x bands x images
  FastDivisor strips, bands, multiplier;
};

// Threads of the finishing kernel that add the blocks' sums of one number.
constexpr int kPartials = 8;

struct FinishArgs {
  const float* sums;
  void *weight, *bias;
  int blocks;
  int taps;          // of the window
  unsigned count;    // numbers of a block
  FastDivisor each;  // numbers of a channel
};

}  // namespace torch_conv::weight_gradient
