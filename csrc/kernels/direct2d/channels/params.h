// CHANNELS: the shape of its strips, and the parameters of its kernel.
#pragma once

#include "core/border.h"
#include "core/taps.h"
#include "core/tile_order.h"

namespace torch_conv::direct2d {

// A block is kChannelThreads vectors of channels; a strip has up to kChannelRows rows. Neighbouring threads own up to
// kChannelVectors vectors of one pixel. Each channel may have a window of its own of up to kChannelTaps taps. Other
// numbers were not measured.
constexpr int kChannelThreads = 128, kChannelRows = 64, kChannelVectors = 8, kChannelTaps = 25;

struct ChannelArgs {
  const void* in;
  void* out;
  int64_t in_n, in_y, out_n, out_y;  // strides
  int in_x, out_x;
  int in_h, in_w, out_h;
  int rows;             // of a strip
  unsigned vectors;     // of a row of outputs
  FastDivisor blocks;   // of a row of outputs
  FastDivisor strips;   // of an image
  FastDivisor group;    // vectors of a pixel that neighbouring threads own
  FastDivisor columns;  // outputs of a row
  int pad_y, pad_x;
  Border border;
  float value;
  int64_t taps_n, taps_c;
};

}  // namespace torch_conv::direct2d
