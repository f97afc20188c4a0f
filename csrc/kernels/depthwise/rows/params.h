// ROWS: the template argument and the parameters of its kernels.
#pragma once

#include "core/tile_order.h"

namespace torch_conv::depthwise {

// Values of RowsPolicy::shift if the shift is not the same for all rows.
constexpr int kRowsFunnel = -1, kRowsBranch = -2;

// A kernel is compiled for each shape.
struct RowsPolicy {
  int k, stride, dilation;
  int shift;    // elements from 16 aligned bytes of the input to the footprint of a vector of outputs
  int vectors;  // of a lane
};

struct RowsArgs {
  const void *in, *weight, *bias;
  void* out;
  int64_t in_stride_n, in_stride_c, out_stride_n, out_stride_c;
  int64_t first, last;  // elements of the input's memory, counted from `in`: [first, last) may be read
  int in_w, out_w, pad;
  uint32_t lanes;                           // in all
  FastDivisor slots, channels, multiplier;  // lanes of a row; output channels; outputs of an input channel
};

}  // namespace torch_conv::depthwise
