// STRIP: any size on planar images, stride 1, dilation 1.
#pragma once

#include "core/geometry.h"
#include "core/peer_rows.h"
#include "kernels/separable2d/shared/taps.h"

namespace torch_conv::separable2d {

// float32 31x31 at 4096^2 on one NVIDIA H200: 85 us, reflect 89.

constexpr int kStripThreads = 128;              // columns of a strip
constexpr int kStripRows = 16;                  // rows of a step, and outputs of a thread in the column pass
constexpr int kStripReuse = 16;                 // neighbouring outputs of a thread in the row pass
constexpr int kStripPitch = kStripThreads + 4;  // of the ring, an odd multiple of 16 bytes
constexpr int kStripBlocks = 6;                 // per multiprocessor: caps the registers at 80

struct StripShape {
  int steps;    // of kStripRows output rows
  int slots;    // of kStripRows row results in the ring
  int skew;     // elements between the staged rows' aligned start and the first tap of output 0
  int columns;  // staged
  int pitch;    // of staged rows, an odd multiple of 16 bytes
  int bytes;    // of shared memory
};

struct StripParams {
  PlaneGeometry planes;
  int pad_y, pad_x, kh, kw;
  unsigned channels, tiles_x, tiles_y;
  float value;
  Border border;
  bool aligned_loads;  // rows of the image start on 16 bytes
  StripShape shape;
  PassTaps taps;
  PeerRows peers;
};

static_assert(sizeof(StripParams) <= 4096, "kernel parameters beyond 4 KiB");

}  // namespace torch_conv::separable2d
