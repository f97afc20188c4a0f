// TYPED_RING: float16, bfloat16 and integers, up to 256 taps at stride 1 and dilation 1, of planes and HWC images.
#pragma once

#include "core/geometry.h"
#include "core/peer_rows.h"
#include "core/tile_order.h"
#include "core/tma.h"
#include "kernels/separable2d/shared/ring_shape.h"
#include "kernels/separable2d/shared/taps.h"

namespace torch_conv::separable2d {

constexpr int kRingBeyond = 8;  // numbers that a row pass may read behind a box

// The sizes of a launch.
struct TypedTile {
  int pixel;  // contiguous numbers of a pixel: 1, or the channels of HWC images
  int kh, kw;
  int skew;   // numbers between a box's aligned start and the first tap of output 0
  int pitch;  // numbers of a row of a box: an odd multiple of 16 bytes
  int steps;  // of a strip

  // In shared memory: the box, the ring, the taps along x and y, two barriers.
  constexpr int box_bytes(int element) const { return int(round_up((kRingRows * pitch + kRingBeyond) * element, 128)); }
  constexpr int ring_numbers() const { return ring_floats(kh, pixel); }
  constexpr int taps_x() const { return int(round_up(kw, 4)); }
  constexpr int taps() const { return taps_x() + int(round_up(kh, 4)); }
  constexpr int bytes(int element) const { return box_bytes(element) + (ring_numbers() + taps()) * 4 + 2 * 8; }
};

struct TypedParams {
  PlaneGeometry planes;
  Dtype out_dtype;
  int pad_y, pad_x;  // pad_x in numbers
  TypedTile tile;
  TileOrder order;
  float value;
  Border border;
  bool zero_fill;  // the border asks for the zeros of a box outside the image
  PassTaps taps;
  PeerRows peers;
};

static_assert(sizeof(TypedParams) + sizeof(TensorMap) <= 4096, "kernel parameters beyond 4 KiB");

}  // namespace torch_conv::separable2d
