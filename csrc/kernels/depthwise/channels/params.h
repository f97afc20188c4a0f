// CHANNELS: the template argument and the parameters of its kernel.
#pragma once

#include "core/problem.h"
#include "core/tile_order.h"

namespace torch_conv::depthwise {

// A kernel is compiled for each shape.
struct ChannelsShape {
  int kh, kw;              // the window
  int stride_y, stride_x;  // in steps between taps
  int vector;              // channels of a thread
  int tx, ty;              // outputs of a thread, in steps between outputs
  int ahead;               // input rows whose loads begin before the first is used
  int resident;            // blocks of kChannelsThreads of a multiprocessor, which share its registers

  constexpr int rows() const { return (ty - 1) * stride_y + kh; }
  constexpr int columns() const { return (tx - 1) * stride_x + kw; }
};

constexpr int kChannelsThreads = 256;  // at most

// One axis of the images. The outputs of a thread are `spread` apart, its inputs `dilation`.
struct ChannelsAxis {
  int in, out;      // pixels
  int stride, pad;  // of the convolution
  int dilation;
  FastDivisor spread;   // dilation / gcd(stride, dilation)
  FastDivisor threads;  // of a block
  FastDivisor blocks;
};

struct ChannelsArgs {
  const void *in, *weight, *bias;
  void* out;
  int64_t in_n, in_h, in_w, out_n, out_h, out_w;  // strides in elements
  int c_out;
  FastDivisor multiplier;
  FastDivisor lanes;   // of a block along the channels
  FastDivisor chunks;  // of lanes * vector channels
  ChannelsAxis y, x;
};

}  // namespace torch_conv::depthwise
