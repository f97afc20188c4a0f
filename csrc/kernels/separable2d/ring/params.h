// RING: float32 of up to 256 taps, stride 1, dilation 1, of planes and HWC images.
#pragma once

#include "core/geometry.h"
#include "core/peer_rows.h"
#include "core/tile_order.h"
#include "core/tma.h"
#include "kernels/separable2d/shared/ring_shape.h"
#include "kernels/separable2d/shared/taps.h"

namespace torch_conv::separable2d {

// Template argument of RING's kernels.
struct RingPolicy {
  int kh, kw;
  int skew;          // numbers between a box's aligned start and the first tap of output 0
  int pixel;         // contiguous numbers of a pixel: 1, or the channels of HWC images
  bool inline_taps;  // the taps are in the kernel's parameters: one window for all
  bool bulk;         // boxes come by bulk copies

  constexpr int width() const { return ring_width(pixel); }
  constexpr int threads() const { return ring_threads(pixel); }
  // Planes take 48 registers, HWC images 56, and 63 with taps in device memory.
  constexpr int blocks() const { return ring_residents(pixel); }
  constexpr int fill() const { return ring_fill(kh); }
  constexpr int slots() const { return ring_slots(kh); }
  // Odd multiples of 16 bytes.
  constexpr int pitch() const { return ((skew + width() + (kw - 1) * pixel + 3) / 4 | 1) * 4; }
  constexpr int ring_pitch() const { return separable2d::ring_pitch(pixel); }
  constexpr int box() const { return kRingRows * pitch(); }
  constexpr int ring() const { return ring_floats(kh, pixel); }
  constexpr int taps_x() const { return inline_taps ? 0 : (kw + 3) / 4 * 4; }
  constexpr int taps() const { return inline_taps ? 0 : taps_x() + (kh + 3) / 4 * 4; }
  constexpr int bytes() const { return (box() + ring() + taps()) * 4 + 2 * 8; }
};

struct RingParams {
  PlaneGeometry planes;
  int pad_y, pad_x;  // pad_x in numbers
  int steps;         // of a strip
  TileOrder order;
  float value;
  Border border;
  bool zero_fill;  // the border asks for the zeros of a box outside the image
  PassTaps taps;
  PeerRows peers;
};

static_assert(sizeof(RingParams) + sizeof(TensorMap) <= 4096, "kernel parameters beyond 4 KiB");

}  // namespace torch_conv::separable2d
