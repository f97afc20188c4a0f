// Which kernel serves a separable problem, and with which tile. Pure functions of sizes, dtypes and the machine.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/rooms.h"
#include "core/tma.h"

namespace torch_conv::separable2d {

constexpr int acc_bytes(Dtype d) { return d == Dtype::f64 ? 8 : 4; }

// ---- variants "tile" and "tile_tma": a compiled odd size, both passes from one box of input ---------------------

constexpr int kTileWarps = 4;

// A warp owns 32 * columns x rows outputs; the warps of a block are stacked in y.
struct TileShape {
  int columns;     // per lane: one vector store
  int rows;        // per warp
  int shift;       // elements between the box's aligned start and the first tap of output 0, for pad == k / 2
  int pitch;       // elements of a box row
  int box_h;       // rows of the box
  int min_blocks;  // per multiprocessor: the register cap

  TC_HD constexpr int w() const { return 32 * columns; }
  TC_HD constexpr int h() const { return kTileWarps * rows; }
  TC_HD constexpr int bytes(int element_bytes) const { return pitch * box_h * element_bytes; }
};

TC_HD constexpr TileShape tile_shape(int element_bytes, int k) {
  TileShape s{};
  // Eight columns of 16- and 8-bit elements while k accumulator rows of them fit the registers.
  s.columns = element_bytes == 4 || k > 7 ? 4 : 8;
  // Each warp repeats the row pass of k - 1 halo rows; more rows repeat less but grow the unrolled code.
  s.rows = k <= 7 ? 8 : k <= 11 ? 12 : 16;
  // A box that starts 16-byte aligned costs 4-5 % of copy speed against 32-byte (measured on one NVIDIA H200).
  const int align = 32 / element_bytes;
  s.shift = (align - k / 2 % align) % align;
  s.pitch = int(round_up(s.shift + s.w() + k - 1, 16 / element_bytes));
  s.box_h = s.h() + k - 1;
  // accumulators, input window, row results, addresses. With 32-byte boxes float32 reaches 92, 88 and 75 % of copy for
  // k = 3, 7 and 15 at 4096^2, 95, 92 and 80 % on 16x3x1080x1920 (reflect, one NVIDIA H200).
  const int registers = k * s.columns + (s.columns + k - 1) + s.columns + 20;
  const int blocks = 65536 / (32 * kTileWarps * registers);
  s.min_blocks = blocks < 7 ? blocks : 7;
  return s;
}

// Boxes start on 32 bytes.
inline int lead_columns(const Separable& p) { return tma::lead_columns(p.kw, p.place.pad_x, 32 / size_of(p.in.dtype)); }

// Planar images at stride and dilation 1 whose border is made of elements.
inline bool planar_serves(const Separable& p) {
  const Placement& at = p.place;
  auto small = [](int64_t i) { return i < (int64_t(1) << 30); };
  const bool dtype =
      p.in.dtype == Dtype::f32 || p.in.dtype == Dtype::f16 || p.in.dtype == Dtype::bf16 || p.in.dtype == Dtype::u8;
  return dtype && p.out.dtype == p.in.dtype && at.stride_y == 1 && at.stride_x == 1 && at.dilation_y == 1 &&
         at.dilation_x == 1 && at.border != Border::skip &&
         (at.border != Border::constant || holds(p.in.dtype, at.value)) && p.in.stride_w == 1 && p.out.stride_w == 1 &&
         small(p.in.h + at.pad_y) && small(p.in.w + at.pad_x) && small(p.out.h) && small(p.out.w);
}

inline bool tile_serves(const Separable& p) {
  return planar_serves(p) && p.kh == p.kw && p.kh >= 3 && p.kh <= 15 && p.kh % 2 == 1;
}

inline bool aligned_rows(const Image& x, int64_t bytes) {
  const int64_t size = size_of(x.dtype);
  auto aligned = [&](int64_t stride, int64_t count) { return count == 1 || stride * size % bytes == 0; };
  return reinterpret_cast<uintptr_t>(x.data) % bytes == 0 && aligned(x.stride_h, x.h) && aligned(x.stride_c, x.c) &&
         aligned(x.stride_n, x.n);
}

inline bool aligned_rows_beside(const Beside& beside, int64_t bytes) {
  const auto fits = [&](const Image& x) { return !x.data || aligned_rows(x, bytes); };
  return fits(beside.above) && fits(beside.below);
}

// ---- variant "strip": any size on planar images, stride 1, dilation 1 -------------------------------------------
//
// float32 31x31 at 4096^2 on one NVIDIA H200: 89 us, reflect 93; "shared" 264.

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

inline StripShape strip_shape(const Separable& p, int steps) {
  const int size = size_of(p.in.dtype), vector = 16 / size;
  StripShape s{.steps = steps};
  s.slots = int(ceil_div(p.kh - 1 + kStripRows, kStripRows));
  s.skew = int(round_up(p.place.pad_x, vector) - p.place.pad_x);
  s.columns = int(round_up(s.skew + kStripThreads + p.kw - 1, vector));
  s.pitch = (s.columns / vector | 1) * vector;
  // The row pass loads whole blocks of taps and elements: up to 32 more than the last row has.
  const int64_t taps = round_up(p.kw, kStripReuse) + round_up(p.kh, kStripRows);
  s.bytes = int((taps + s.slots * kStripRows * kStripPitch) * 4 + (kStripRows * s.pitch + 32) * size);
  return s;
}

inline int64_t strip_blocks(const Separable& p, int steps) {
  return p.out.n * p.out.c * ceil_div(p.out.w, kStripThreads) * ceil_div(p.out.h, steps * kStripRows);
}

inline bool strip_serves(const Separable& p, const Arch& arch) {
  constexpr int64_t most = 1024;  // keeps `bytes` an int
  return planar_serves(p) && p.kh <= most && p.kw <= most && strip_shape(p, 1).bytes <= arch.shared_bytes / 2;
}

// Long strips repeat few row passes, short ones leave no multiprocessor idle: the least of rounds of resident blocks
// times steps, where a step without outputs (the ring fills) costs half.
inline int strip_steps(const Separable& p, const Arch& arch) {
  const StripShape shape = strip_shape(p, 1);
  const int64_t fitting = arch.shared_bytes / (shape.bytes + 1024);
  const int64_t resident = arch.multiprocessors * std::max<int64_t>(1, std::min<int64_t>(kStripBlocks, fitting));
  const int most = int(std::min<int64_t>(32, ceil_div(p.out.h, kStripRows)));
  int best = 1;
  int64_t least = INT64_MAX;
  for (int steps = 1; steps <= most; ++steps) {
    const int64_t cost = ceil_div(strip_blocks(p, steps), resident) * (2 * steps + shape.slots);
    if (cost <= least) least = cost, best = steps;
  }
  return best;
}

// ---- variants "shared" and "two_pass": any size, stride, dilation, layout and border ----------------------------

constexpr int kRowBlock = 32;  // input rows of one row pass: one per lane
constexpr int kWarps = 8;      // warps of a block
constexpr int kBlocks = 3;     // per multiprocessor: caps the registers at 80; asked nothing, ptxas spills at 64
constexpr int kReuse = 8;     // neighbouring outputs of one thread, in the row pass along x, in the column pass along y
constexpr int kSegments = 2;  // row-pass segments of kReuse outputs per warp
constexpr int kColumns = kWarps * kSegments * kReuse;  // tile width: pixels x channels
constexpr int kStaged = 2 * kColumns;                  // staged input row: pixels x channels

struct GeneralTile {
  int channels;  // interleaved channels of a tile row (channels_last), else 1
  int pixels;    // output pixels of a tile row; pixels * channels <= kColumns
  int taps;      // row taps that one staging of the input serves
  int span;      // staged input pixels
  int pitch;     // staged elements of a row; odd, so that lanes on 32 rows hit 32 banks
  int rows;      // output rows of a tile
  int ext_rows;  // input rows of a tile

  TC_HD int columns() const { return pixels * channels; }
  TC_HD int columns_pitch() const { return columns() | 1; }
  TC_HD int stage_elements() const { return kRowBlock * pitch; }
};

// Channels that lie side by side are filtered together, so that loads and stores are coalesced.
inline int interleaved_channels(const Separable& p) {
  const bool interleaved =
      p.in.stride_c == 1 && p.in.c > 1 && p.in.stride_w != 1 && p.taps_x.stride_c == 0 && p.taps_y.stride_c == 0;
  return interleaved ? int(std::min<int64_t>(p.in.c, kReuse)) : 1;
}

inline GeneralTile general_tile(const Separable& p, int rows) {
  const Placement& at = p.place;
  GeneralTile t{};
  t.channels = interleaved_channels(p);
  const int staged = kStaged / t.channels;
  t.pixels = int(std::min<int64_t>(kColumns / t.channels / kReuse * kReuse, round_up(p.out.w, kReuse)));
  while (t.pixels > 1 && (t.pixels - 1) * at.stride_x >= staged) t.pixels /= 2;
  const int64_t first = t.pixels > 1 ? (t.pixels - 1) * at.stride_x + 1 : 1;
  t.taps = int(std::min(p.kw, 1 + (staged - first) / at.dilation_x));
  t.span = int(first + (t.taps > 1 ? (t.taps - 1) * at.dilation_x : 0));
  t.pitch = (t.span * t.channels) | 1;
  t.rows = rows;
  const int64_t ext_rows = (rows - 1) * at.stride_y + (p.kh - 1) * at.dilation_y + 1;
  t.ext_rows = int(std::min<int64_t>(ext_rows, 1 << 20));
  return t;
}

// "shared" keeps the row results of a tile beside the staged input; "two_pass" only one block of rows of them.
inline int64_t shared_bytes(const GeneralTile& t, int result_rows, Dtype in) {
  return (t.stage_elements() + int64_t(result_rows) * t.columns_pitch()) * acc_bytes(in);
}

inline int64_t general_columns(const Separable& p, const GeneralTile& t) { return ceil_div(p.out.w, t.pixels); }
inline int64_t general_groups(const Separable& p, const GeneralTile& t) {
  return p.out.n * ceil_div(p.out.c, t.channels);
}

// The tallest tile that leaves room for two blocks per multiprocessor, made smaller while blocks are few.
// Returns rows == 0 when two passes through memory are cheaper: most of a tile's row results would be halo.
inline GeneralTile shared_tile(const Separable& p, const Arch& arch, bool pinned) {
  const int most = int(std::min<int64_t>(64, round_up(p.out.h, kReuse)));
  GeneralTile best{};
  for (int rows = most; rows >= kReuse; rows = rows == kReuse ? 0 : int(round_up(rows / 2, kReuse))) {
    const GeneralTile t = general_tile(p, rows);
    const int64_t bytes = shared_bytes(t, t.ext_rows, p.in.dtype);
    const bool fits = bytes <= arch.shared_bytes / 2 || (rows == kReuse && bytes <= arch.shared_bytes);
    const bool worth = pinned || t.ext_rows <= 3 * rows * p.place.stride_y || p.out.h <= rows || best.rows > 0;
    if (fits && worth) best = t;
    const int64_t blocks = general_groups(p, t) * general_columns(p, t) * ceil_div(p.out.h, rows);
    if (best.rows > 0 && blocks >= 2 * arch.multiprocessors) break;
  }
  return best;
}

// ---- taps ----------------------------------------------------------------------------------------------------

// Bytes of host taps from the first window's first tap to the last window's last one.
inline int64_t host_bytes(const Separable& p, const Taps& taps, int64_t k) {
  if (!taps.on_host) return 0;
  return ((p.out.n - 1) * taps.stride_n + (p.out.c - 1) * taps.stride_c + k) * acc_bytes(p.in.dtype);
}

}  // namespace torch_conv::separable2d
