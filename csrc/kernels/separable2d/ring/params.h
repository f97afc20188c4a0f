// RING: float32 of up to 256 taps, stride 1, dilation 1, of planes and HWC images.
#pragma once

#include "core/geometry.h"
#include "core/peer_rows.h"
#include "core/tile_order.h"
#include "core/tma.h"
#include "kernels/separable2d/shared/taps.h"

namespace torch_conv::separable2d {

constexpr int kRingReuse = 16;  // outputs of a thread in either pass
// Groups of threads in the column pass. us, one NVIDIA H200:
//
//                                4096^2 31x31   8192^2 15x15   21x21   31x31
//     2 groups of 128 threads            57.0            155     153     216
//     1 group of 256 (256 columns)       58.2            156     166     223
//     1 group of 128                     60.7            162     166     225
constexpr int kRingGroups = 2;
constexpr int kRingRows = kRingGroups * kRingReuse;  // of a box, and of outputs of a step
constexpr int kRingPiece = 8;  // rows of a bulk copy: the last boxes of a strip bring no more than it needs

// Template argument of RING's kernels.
struct RingPolicy {
  int kh, kw;
  int skew;          // numbers between a box's aligned start and the first tap of output 0
  int pixel;         // contiguous numbers of a pixel: 1, or the channels of HWC images
  bool inline_taps;  // the taps are in the kernel's parameters: one window for all
  bool bulk;         // boxes come by bulk copies

  // Numbers of a row of a strip: whole warps, and kRingReuse whole pixels a thread of the row pass.
  constexpr int width() const { return pixel == 3 ? 96 : 128; }
  constexpr int threads() const { return kRingGroups * width(); }
  // Per multiprocessor: caps the registers at 64; planes take 48, HWC images 56, and 63 with taps in device memory.
  constexpr int blocks() const { return pixel == 3 ? 5 : 4; }
  constexpr int fill() const { return (kh - 1 + kRingRows - 1) / kRingRows; }  // boxes before the first outputs
  constexpr int slots() const { return (fill() + 1) * kRingGroups; }           // of kRingReuse row results
  // Odd multiples of 16 bytes.
  constexpr int pitch() const { return ((skew + width() + (kw - 1) * pixel + 3) / 4 | 1) * 4; }
  constexpr int ring_pitch() const { return width() + 4; }
  constexpr int box() const { return kRingRows * pitch(); }
  constexpr int ring() const { return slots() * kRingReuse * ring_pitch(); }
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
