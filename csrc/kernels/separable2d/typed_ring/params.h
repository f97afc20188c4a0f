// TYPED_RING: float16, bfloat16 and integers, up to 256 taps at stride 1 and dilation 1, of planes and HWC images.
#pragma once

#include "core/geometry.h"
#include "core/peer_rows.h"
#include "core/tile_order.h"
#include "core/tma.h"
#include "kernels/separable2d/shared/taps.h"

namespace torch_conv::separable2d {

constexpr int kTypedReuse = 16;                         // outputs of a thread in either pass
constexpr int kTypedGroups = 2;                         // of threads in the column pass
constexpr int kTypedRows = kTypedGroups * kTypedReuse;  // of a box, and of outputs of a step
constexpr int kTypedPiece = 8;   // rows of a bulk copy: the last boxes of a strip bring no more than it needs
constexpr int kTypedBeyond = 8;  // numbers that a row pass may read behind a box

// Numbers of a row of a strip: whole warps, and kTypedReuse whole pixels a thread of the row pass.
constexpr int typed_width(int pixel) { return pixel == 3 ? 96 : 128; }
constexpr int typed_threads(int pixel) { return kTypedGroups * typed_width(pixel); }
constexpr int typed_blocks(int pixel) { return pixel == 3 ? 5 : 4; }  // per multiprocessor: 64 registers a thread
constexpr int typed_ring_pitch(int pixel) { return typed_width(pixel) + 4; }

// The sizes of a launch. A number is a value of a row: of a plane, or of the interleaved channels of an HWC image.
struct TypedTile {
  int pixel;  // contiguous numbers of a pixel: 1, or the channels of HWC images
  int kh, kw;
  int skew;   // numbers between a box's aligned start and the first tap of output 0
  int pitch;  // numbers of a row of a box: an odd multiple of 16 bytes
  int steps;  // of a strip

  constexpr int fill() const { return (kh - 1 + kTypedRows - 1) / kTypedRows; }  // boxes before the first outputs
  constexpr int slots() const { return (fill() + 1) * kTypedGroups; }            // of kTypedReuse row results
  // In shared memory: the box, the ring, the taps along x and y, two barriers.
  constexpr int box_bytes(int element) const {
    return int(round_up((kTypedRows * pitch + kTypedBeyond) * element, 128));
  }
  constexpr int ring_floats() const { return slots() * kTypedReuse * typed_ring_pitch(pixel); }
  constexpr int taps_x() const { return int(round_up(kw, 4)); }
  constexpr int taps() const { return taps_x() + int(round_up(kh, 4)); }
  constexpr int bytes(int element) const { return box_bytes(element) + (ring_floats() + taps()) * 4 + 2 * 8; }
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
