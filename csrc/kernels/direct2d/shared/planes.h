// Windows over planes, and the parameters of the kernels of TILE and REG.
#pragma once

#include "core/geometry.h"
#include "core/peer_rows.h"
#include "core/problem.h"
#include "core/taps.h"
#include "core/tile_order.h"

namespace torch_conv::direct2d {

// The default anchor: the tap of k over the output pixel. A tile places its halo by this tap.
constexpr int middle_of(int k) { return (k - 1) / 2; }

// A window over a plane. If channels are interleaved, a plane's rows hold w * channels values, and `dilation_x` is the
// dilation times the channels.
struct PlaneWindow {
  int kh, kw;
  int dilation_y, dilation_x;  // from tap to tap, in rows and in values
  int stride;                  // from output to output, in rows or values
  // Interleaved channels that have a window each; 0: all channels share one window.
  int channel_windows = 0;
  // Lanes own 4-byte words of `channel_windows` channels, and hold the windows of these channels in registers.
  bool by_words = false;

  constexpr int left() const { return middle_of(kw) * dilation_x; }
  constexpr int right() const { return (kw - 1) * dilation_x - left(); }
  constexpr int above() const { return middle_of(kh) * dilation_y; }
  constexpr int rows() const { return (kh - 1) * dilation_y + 1; }
};

// Offsets inside a row fit into 32 bits; rows are addressed with 64 bits.
struct PlaneArgs {
  PlaneGeometry planes;
  TileOrder order;
  int lead;                 // the grid of tiles starts this many columns left of the output
  unsigned multiplier;      // output channels per input channel
  int shift_y, shift_x;     // input position of the window's middle tap over output 0
  int channels;             // interleaved in a row
  int in_pixel, out_pixel;  // elements from pixel to pixel
  Border border;
  float value;             // of Border::constant
  int64_t taps_n, taps_c;  // strides of the windows
  const float* bias;
  PeerRows peers;
};

}  // namespace torch_conv::direct2d
