// ROWS_MMA: the parameters of its kernel.
#pragma once

#include "core/tile_order.h"

namespace torch_conv::depthwise {

constexpr int kRowsMmaWarps = 4;  // of a block

struct RowsMmaArgs {
  const void *in, *weight, *bias;
  void* out;
  int64_t in_stride_n, in_stride_c, out_stride_n, out_stride_c;
  int in_w, out_w, pad, k;
  uint32_t warps;                    // in all
  uint32_t columns;                  // segments of a channel's rows in all images
  FastDivisor segments, multiplier;  // segments of a row; outputs of an input channel
  FastDivisor fastest;               // the channels, or the warps of a channel: the index that changes first
  bool channels_first;               // `fastest` is the channels
};

}  // namespace torch_conv::depthwise
