// TILE: a k x k window (k odd), both passes from one box of input.
#pragma once

#include "core/geometry.h"
#include "core/peer_rows.h"
#include "core/tile_order.h"
#include "core/tma.h"
#include "kernels/separable2d/shared/taps.h"

namespace torch_conv::separable2d {

constexpr int kTileMost = 15;  // the largest k
constexpr int kTileWarps = 4;

// A warp owns 32 * columns x rows outputs; the warps of a block are stacked in y. Columns are numbers of a row: pixels
// of a plane, or the `pixel` interleaved channels of HWC images, whose next tap is `pixel` numbers further.
struct TileShape {
  int columns;     // per lane
  int rows;        // per warp
  int halo;        // elements of a row beyond its outputs
  int shift;       // elements between the box's aligned start and the first tap of output 0, for pad == k / 2
  int pitch;       // elements of a box row
  int box_h;       // rows of the box
  int min_blocks;  // per multiprocessor: the register cap
  int overlap;     // columns that the next tile makes, too, so that each stores whole vectors of 16 bytes

  constexpr int covered() const { return 32 * columns; }
  constexpr int w() const { return covered() - overlap; }
  constexpr int h() const { return kTileWarps * rows; }
  constexpr int bytes(int element_bytes) const { return pitch * box_h * element_bytes; }  // of the box
  // A row of a warp's outputs that waits to be stored, twice; with 16 bytes to spare at either end.
  constexpr int stage_bytes(int element_bytes) const { return overlap ? covered() * element_bytes + 32 : 0; }
  constexpr int shared_bytes(int element_bytes) const {
    return bytes(element_bytes) + 16 + 2 * kTileWarps * stage_bytes(element_bytes);  // 16: the barrier
  }
};

// aligned: output rows start on a lane's vector and hold whole ones; others leave through shared memory.
constexpr TileShape tile_shape(int element_bytes, int k, int pixel, bool aligned) {
  TileShape s{};
  // Eight columns of 16- and 8-bit elements while k accumulator rows of them fit the registers.
  s.columns = element_bytes == 4 || k > 7 ? 4 : 8;
  // Each warp repeats the row pass of k - 1 halo rows; more rows repeat less but grow the unrolled code.
  s.rows = k <= 7 ? 8 : k <= 11 ? 12 : 16;
  // A box that starts 16-byte aligned costs 4-5 % of copy speed against 32-byte (measured on one NVIDIA H200).
  const int align = 32 / element_bytes;
  s.halo = (k - 1) * pixel;
  s.shift = (align - s.halo / 2 % align) % align;
  s.overlap = aligned ? 0 : 16 / element_bytes;
  s.pitch = int(round_up(s.shift + s.covered() + s.halo, 16 / element_bytes));
  s.box_h = s.h() + k - 1;
  // Accumulators, input window, row results, addresses. With 32-byte boxes, % of copy for k = 3, 7, 15 (float32,
  // reflect, one NVIDIA H200): 4096^2 92, 88, 75; 16x3x1080x1920 95, 92, 80.
  const int registers = k * s.columns + (s.columns + s.halo) + s.columns + 20;
  const int blocks = 65536 / (32 * kTileWarps * registers);
  const int most = element_bytes == 4 && pixel > 1 ? 6 : 7;  // HWC images' 3x3 spills with 72 registers
  s.min_blocks = blocks < most ? blocks : most;
  return s;
}

struct TileParams {
  PlaneGeometry planes;
  int pad_y, pad_x;  // pad_x in numbers
  int lead;          // the grid of tiles starts this many columns left of the output
  TileOrder order;
  float value;
  Border border;
  bool bulk;           // the box comes by a bulk copy
  bool zero_fill;      // the box's zeros outside the image are the border's values
  bool aligned_loads;  // 16-byte loads from inside the image are aligned
  PassTaps taps;
  PeerRows peers;
};

static_assert(sizeof(TileParams) + sizeof(TensorMap) <= 4096, "kernel parameters beyond 4 KiB");

}  // namespace torch_conv::separable2d
