// Shared by host and kernel: the shape of tiles, and the kernel's parameters.
#pragma once

#include "core/geometry.h"
#include "core/problem.h"
#include "core/shard_planes.h"
#include "core/streaming.h"

namespace torch_conv::separable3d {

constexpr int kStreamingMost = 15;  // the largest side of a window
constexpr int kStages = 5;          // planes in shared memory: one filtered, two patched, two being copied
constexpr int kResults = 3;         // planes of row results: written, read, and read by the slowest
constexpr int kSegment = 8;         // neighbouring outputs of a thread in the row pass

// A block of `warps` warps computes tile_w x tile_h() outputs of every plane; a thread owns one column of `rows` of
// them.
struct StreamingTile {
  int k, element_bytes;
  int align;  // bytes that boxes start on: 32 for bulk copies, an element where copies are of one
  int tile_w, rows, warps, min_blocks;  // min_blocks: per multiprocessor, the register cap

  constexpr int threads() const { return 32 * warps; }
  constexpr int tile_h() const { return warps / (tile_w / 32) * rows; }
  constexpr int box_h() const { return tile_h() + k - 1; }
  // Elements that boxes start on.
  constexpr int step() const { return align / element_bytes; }
  // Elements between the box's start and the first tap of output 0, for pad_x == k / 2.
  constexpr int shift() const { return (step() - k / 2 % step()) % step(); }
  // Rows of the box and of row results are odd multiples of 16 bytes: lanes on different rows hit different banks.
  constexpr int pitch() const {
    return int((ceil_div((shift() + tile_w + k - 1) * element_bytes, 16) | 1) * 16 / element_bytes);
  }
  // The row pass of a warp: 32 segments of this many rows.
  constexpr int item_rows() const { return tile_w == 32 ? 8 : 4; }
  constexpr int result_pitch() const { return tile_w + 4; }
  constexpr int result_rows() const { return int(round_up(box_h(), item_rows())); }
  constexpr int box_bytes() const { return pitch() * box_h() * element_bytes; }
  constexpr int stage_bytes() const { return int(round_up(box_bytes(), 128)); }
  constexpr int result_bytes() const { return result_rows() * result_pitch() * 4; }
  // At most k - 1 rows and k - 1 columns of the box's needed elements are outside the image.
  constexpr int most_patches() const { return (k - 1) * (tile_w + box_h()); }
  // Stages, planes of row results, taps, the list of the box's elements outside the image, barriers, and where planes
  // are read.
  constexpr int shared_bytes() const {
    return kStages * stage_bytes() + kResults * result_bytes() + 3 * kTapPitch * 4 + most_patches() * 8 +
           (kStages + 1) * 8 + kMostPlanes * 4;
  }
};

// The k - 1 sums of every output stay in registers: 8 outputs a thread up to 9x9x9, 4 beyond. One block of 16 warps: a
// tile of 64x64 has fewer halo rows than two blocks of 64x32 (float32 7x7x7, 512^3, one NVIDIA H200: 286 against 342
// us; 256^3 47 and 48), for 15x15x15 32x64 fewer than 64x32 (553, 588 us).
constexpr StreamingTile streaming_tile(int element_bytes, int k, bool bulk) {
  StreamingTile s{.k = k,
                  .element_bytes = element_bytes,
                  .align = bulk ? 32 : element_bytes,
                  .tile_w = 64,
                  .rows = 8,
                  .warps = 16,
                  .min_blocks = 1};
  if (k > 9) s.tile_w = 32, s.rows = 4;
  return s;
}

struct StreamingParams {
  VolumeGeometry volumes;
  int pad_z, pad_y, pad_x, lead, chunk;
  StreamingGrid grid;
  float value;
  Border border;
  bool patch;                // the border's values outside the image differ from the zeros of boxes
  StreamingTaps windows[3];  // x, y, z; unused where the windows are fixed, which are kTapPitch floats apart
  alignas(16) unsigned char taps[3 * kInlineTapBytes];
};

static_assert(sizeof(StreamingParams) + sizeof(ShardMaps) <= 4096, "kernel parameters beyond 4 KiB");

}  // namespace torch_conv::separable3d
