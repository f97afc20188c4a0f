// What the host and the kernels of this family agree on: the shapes of tiles, and the kernels' parameters.
#pragma once

#include "core/geometry.h"
#include "core/neighbours.h"
#include "core/problem.h"
#include "core/tile.h"
#include "core/tma.h"

namespace torch_conv::separable2d {

// The two windows of a launch: in device memory, or copied into the kernel's parameters. A kernel takes it inside a
// `const __grid_constant__` parameter, so that a generic pointer may reach `bytes`.
struct PassTaps {
  struct Pass {
    const void* device;  // null: the taps stand in `bytes`, from `start` on
    int start;
    int64_t stride_n, stride_c;
  };
  Pass x, y;
  alignas(16) unsigned char bytes[2 * kInlineTapBytes];

#ifdef __CUDACC__
  template <typename A>
  __device__ const A* of(const Pass& window, int64_t n, int64_t c) const {
    const void* first = window.device ? window.device : bytes + window.start;
    return static_cast<const A*>(first) + n * window.stride_n + c * window.stride_c;
  }
#endif
};

// ---- TILE: a k x k window (k odd), both passes from one box of input ---------------------------------------------

constexpr int kTileMost = 15;  // the largest k
constexpr int kTileWarps = 4;

// A warp owns 32 * columns x rows outputs; the warps of a block are stacked in y. Columns are numbers of a row: pixels
// of a plane, or the `pixel` channels of (H, W, C) HWC images, which lie side by side, so that the next tap lies as
// many numbers further.
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
  // accumulators, input window, row results, addresses. With 32-byte boxes float32 reaches 92, 88 and 75 % of copy for
  // k = 3, 7 and 15 at 4096^2, 95, 92 and 80 % on 16x3x1080x1920 (reflect, one NVIDIA H200).
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
  bool zero_fill;      // ... whose zeros outside the image are what the border asks for
  bool aligned_loads;  // 16-byte loads from inside the image are aligned
  PassTaps taps;
  Neighbours peers;
};

// ---- STRIP: any size on planar images, stride 1, dilation 1 -------------------------------------------------------
//
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
  Neighbours peers;
};

// ---- RING: float32 of up to 256 taps, stride 1, dilation 1: planes, and HWC images ----------------------
//
// One NVIDIA H200, us, RING and what serves where there is no RING. Planes, STRIP: 4096^2 21x21 48, 74; 31x31 58, 85;
// 63x63 105, 146; 1024^2 31x31 9.3, 15.0; 16x3x1080x1920 31x31 288, 439. HWC images, SHARED: 16x3x1080x1920
// 31x31 305, 1830. With the taps in device memory 31x31 at 4096^2 takes 63, 63x63 112.

constexpr int kRingReuse = 16;  // outputs of a thread in either pass
// Of threads in the column pass. Two groups of 128 threads, one of 256 (and columns) and one of 128, us, one NVIDIA
// H200: 4096^2 31x31 57.0, 58.2, 60.7; 8192^2 15x15 155, 156, 162; 21x21 153, 166, 166; 31x31 216, 223, 225.
constexpr int kRingGroups = 2;
constexpr int kRingRows = kRingGroups * kRingReuse;  // of a box, and of outputs of a step
constexpr int kRingPiece = 8;  // rows of a bulk copy: the last boxes of a strip bring no more than it needs

struct RingShape {
  int kh, kw;
  int skew;          // numbers between a box's aligned start and the first tap of output 0
  int pixel;         // numbers of a pixel that lie side by side in a row: 1, or the channels of HWC images
  bool inline_taps;  // they stand in the kernel's parameters: one window for all

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
  bool zero_fill;  // the zeros that stand outside the image in a box are what the border asks for
  PassTaps taps;
  Neighbours peers;
};

// ---- SHARED and TWO_PASS: any size, stride, dilation, layout and border -------------------------------------------

constexpr int kRowBlock = 32;  // input rows of one row pass: one per lane
constexpr int kWarps = 8;      // warps of a block
constexpr int kBlocks = 3;     // per multiprocessor: caps the registers at 80; asked nothing, ptxas spills at 64
constexpr int kReuse = 8;     // neighbouring outputs of one thread, in the row pass along x, in the column pass along y
constexpr int kSegments = 2;  // row-pass segments of kReuse outputs per warp
constexpr int kColumns = kWarps * kSegments * kReuse;  // tile width: pixels x channels
constexpr int kStaged = 2 * kColumns;                  // staged input row: pixels x channels

constexpr int kColumnRows = 16;  // TWO_PASS: output rows of one thread of the column pass ...
constexpr int kTwoPassRows = 32 * kWarps / kColumns * kColumnRows;  // ... and of a block of it

struct GeneralTile {
  int channels;  // interleaved channels of a tile row (channels_last), else 1
  int pixels;    // output pixels of a tile row; pixels * channels <= kColumns
  int taps;      // row taps that one staging of the input serves
  int span;      // staged input pixels
  int pitch;     // staged elements of a row; odd, so that lanes on 32 rows hit 32 banks
  int rows;      // output rows of a tile
  int ext_rows;  // input rows of a tile

  constexpr int columns() const { return pixels * channels; }
  constexpr int columns_pitch() const { return columns() | 1; }
  constexpr int stage_elements() const { return kRowBlock * pitch; }
};

struct GeneralParams {
  Image in, out;
  Placement place;
  int kh, kw;
  GeneralTile tile;
  bool reuse_x, reuse_y;  // stride == dilation
  unsigned tiles_x, tiles_y, channel_blocks;
  PassTaps taps;
};

static_assert(sizeof(TileParams) + sizeof(TensorMap) <= 4096 && sizeof(RingParams) + sizeof(TensorMap) <= 4096 &&
                  sizeof(StripParams) <= 4096 && sizeof(GeneralParams) + sizeof(void*) <= 4096,
              "kernel parameters beyond 4 KiB");

}  // namespace torch_conv::separable2d
