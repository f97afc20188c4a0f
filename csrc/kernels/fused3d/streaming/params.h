// Shared by host and kernel: the shape of a tile, and the kernel's parameters.
#pragma once

#include "core/geometry.h"
#include "core/streaming.h"
#include "core/tma.h"

namespace torch_conv::fused3d {

constexpr int kStages = 4;   // planes of the input in shared memory: one filtered, one patched, two being copied
constexpr int kResults = 2;  // planes of row results: one read, one written
constexpr int kRing = 4;     // blurred planes: three under a gradient, one written
constexpr int kSegment = 8;  // neighbouring outputs of a thread in the row pass
constexpr int kStaticBytes = 4 * kMostPlanes + 128;  // of shared memory: that list, the barriers, a flag

// A block computes tile_w x tile_h() outputs of every plane from the blurred voxels there and one around. A thread owns
// two neighbouring columns of `rows` of them, and some threads one voxel of the rim. Rows of blurred voxels and of row
// results start `kLead` columns left of the tile, so that a thread's pairs are aligned. One NVIDIA H200, float32 7x7x7,
// replicate, 512^3, us:
//
//     two blocks of 8 warps a multiprocessor               563
//     one block of 16 warps (64x64)                        576
//     one block of 8 warps, up to a plane ahead            876
//     one column of 4 voxels a thread, 16 warps            792
//
// Five stages, or no fence before copies, take the same time.
constexpr int kLead = 2;

struct StreamingShape {
  int k, element_bytes;
  int tile_w = 64, rows = 4, warps = 8, min_blocks = 2;  // min_blocks: per multiprocessor, the register cap

  TC_HD constexpr int threads() const { return 32 * warps; }
  TC_HD constexpr int tile_h() const { return warps * rows; }
  TC_HD constexpr int plane_w() const { return kLead + tile_w + 1; }
  TC_HD constexpr int plane_h() const { return tile_h() + 2; }
  TC_HD constexpr int rim() const { return 2 * (tile_w + 2) + 2 * tile_h(); }
  TC_HD constexpr int halo_y() const { return k / 2 + 1; }
  TC_HD constexpr int halo_x() const { return k / 2 + kLead; }
  TC_HD constexpr int box_h() const { return plane_h() + k - 1; }
  // Elements between the box's start, aligned to 32 bytes, and the first tap of the first row result.
  TC_HD constexpr int shift() const {
    return (32 / element_bytes - halo_x() % (32 / element_bytes)) % (32 / element_bytes);
  }
  // The row pass reads whole vectors, from the one with that first tap on.
  TC_HD constexpr int vector() const { return element_bytes == 4 ? 4 : 8; }
  TC_HD constexpr int skip() const { return shift() % vector(); }
  TC_HD constexpr int segments() const { return int(ceil_div(plane_w(), kSegment)); }
  TC_HD constexpr int items() const { return segments() * box_h(); }  // of the row pass
  // Rows of the box and of row results are odd multiples of 16 bytes: lanes on different rows hit different banks. The
  // last segment of a row reads up to 32 bytes beyond it and stores one half: columns from plane_w() on are never used.
  TC_HD constexpr int pitch() const {
    return int((ceil_div((shift() + plane_w() + k - 1) * element_bytes, 16) | 1) * 16 / element_bytes);
  }
  TC_HD constexpr int result_pitch() const { return int(ceil_div(plane_w(), 4) | 1) * 4; }
  TC_HD constexpr int ring_pitch() const { return int(round_up(plane_w(), 2)); }
  TC_HD constexpr int box_bytes() const { return pitch() * box_h() * element_bytes; }
  TC_HD constexpr int stage_bytes() const { return int(round_up(box_bytes() + 32, 128)); }
  TC_HD constexpr int result_bytes() const { return box_h() * result_pitch() * 4; }
  TC_HD constexpr int ring_bytes() const { return int(round_up(ring_pitch() * plane_h() * 4, 16)); }
  // At most 2 * halo_y() rows and columns of the box's needed elements are outside the volume.
  TC_HD constexpr int most_patches() const { return 2 * halo_y() * (tile_w + 2 * halo_y() + box_h()); }
  // Stages, row results, blurred planes, taps, and the list of elements outside the volume.
  TC_HD constexpr int shared_bytes() const {
    return kStages * stage_bytes() + kResults * result_bytes() + kRing * ring_bytes() + 3 * kTapPitch * 4 +
           most_patches() * 4;
  }
};

TC_HD constexpr StreamingShape streaming_shape(int element_bytes, int k) {
  return {.k = k, .element_bytes = element_bytes};
}

struct StreamingParams {
  VolumeGeometry volumes;
  int chunk;
  StreamingGrid grid;
  float value, number;
  Border border;
  bool patch;                // the border's values outside the volume differ from the zeros of bulk copies
  bool difference;           // the gradient's windows have two taps each (is_difference in streaming/plan.h)
  bool pairs;                // outputs 2 i and 2 i + 1 of a row may be stored as one word
  float gradient[3][3][3];   // of window i along x, y, z
  StreamingTaps windows[3];  // of the blur: x, y, z
  alignas(16) unsigned char taps[3 * kInlineTapBytes];
};

}  // namespace torch_conv::fused3d
