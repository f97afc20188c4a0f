// What ROWS_MMA's launch and kernel agree on.
#pragma once

#include "kernels/depthwise/shared/divisor.h"

namespace torch_conv::depthwise {

constexpr int kRowsMmaWarps = 4;  // of a block

struct RowsMmaArgs {
  const void *in, *weight, *bias;
  void* out;
  int64_t in_stride_n, in_stride_c, out_stride_n, out_stride_c;
  int in_w, out_w, pad, k;
  uint32_t warps;                    // in all
  uint32_t columns;                  // segments of a channel's rows in all images
  RowsDivisor segments, multiplier;  // segments of a row; outputs of an input channel
  RowsDivisor fastest;               // how many warps lie side by side: the channels', or those of one channel
  bool channels_first;
};

}  // namespace torch_conv::depthwise
