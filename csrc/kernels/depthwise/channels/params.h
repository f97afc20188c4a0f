// What CHANNELS' launch and kernel agree on.
#pragma once

#include "core/problem.h"
#include "core/tile.h"

namespace torch_conv::depthwise {

// What a thread computes, and how: all of it is known when the kernel is compiled.
struct ChannelsShape {
  int kh, kw;              // the window
  int stride_y, stride_x;  // in steps between taps
  int vector;              // channels a thread owns
  int tx, ty;              // outputs a thread makes, in steps between outputs
  int ahead;               // input rows that are on their way before the first is used
  int resident;            // blocks of kChannelsThreads an SM is to hold: what registers are shared by

  constexpr int rows() const { return (ty - 1) * stride_y + kh; }
  constexpr int columns() const { return (tx - 1) * stride_x + kw; }
};

constexpr int kChannelsThreads = 256;  // at most

// One axis of the images. Outputs that one thread makes lie `spread` apart, and its inputs `step`.
struct ChannelsAxis {
  int in, out;          // pixels
  int stride, pad;      // of the convolution
  int step;             // dilation
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
