// What ROWS' launches and kernels agree on.
#pragma once

#include "kernels/depthwise/shared/divisor.h"

namespace torch_conv::depthwise {

// Where a vector's input begins within 16 bytes, if that is not the same for all rows.
constexpr int kRowsFunnel = -1, kRowsBranch = -2;

struct RowsArgs {
  const void *in, *weight, *bias;
  void* out;
  int64_t in_stride_n, in_stride_c, out_stride_n, out_stride_c;
  int64_t first, last;  // elements of the input's memory, counted from `in`: [first, last) may be read
  int in_w, out_w, pad;
  uint32_t lanes;                           // in all
  RowsDivisor slots, channels, multiplier;  // lanes of a row; output channels; outputs of an input channel
};

}  // namespace torch_conv::depthwise
