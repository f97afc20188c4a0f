// Which chains of volumes one launch serves, and with which tile. Pure functions of sizes, dtypes and the machine.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/march.cuh"
#include "core/rooms.h"
#include "core/tma.h"

namespace torch_conv::fused3d {

constexpr int kStages = 4;   // planes of the input in shared memory: one filtered, one patched, two on their way
constexpr int kResults = 2;  // planes of row results: one read, one written
constexpr int kRing = 4;     // blurred planes: three under a gradient, one written
constexpr int kSegment = 8;  // neighbouring outputs of a thread in the row pass
constexpr int kStaticBytes = 4 * kMostPlanes + 128;  // of shared memory: that list, the barriers, a flag

// A block computes tile_w x tile_h() outputs of every plane from the blurred voxels there and one around; a thread owns
// two neighbouring columns of `rows` of them, and some threads one voxel of the rim. Rows of blurred voxels and of row
// results start `kLead` columns left of the tile, so that a thread's pairs are aligned.
//
// Measured on one NVIDIA H200, float32 7x7x7, replicate, 512^3: two blocks of 8 warps a multiprocessor 563 us, one
// block of 16 warps (64x64) 576; one block of 8 warps that may be a plane ahead of each other 876 (two warps a
// scheduler do not fill it); one column of 4 voxels a thread, 16 warps, 792. Five stages, or the fence before copies
// left out, change nothing.
constexpr int kLead = 2;

struct MarchShape {
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
  // The row pass reads whole vectors, from the one with that first tap on; a segment needs so many.
  TC_HD constexpr int vector() const { return element_bytes == 4 ? 4 : 8; }
  TC_HD constexpr int skip() const { return shift() % vector(); }
  TC_HD constexpr int vectors() const { return int(ceil_div(skip() + kSegment + k - 1, vector())); }
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
  // Of the box's elements that outputs need, at most 2 * halo_y() rows and columns lie outside the volume.
  TC_HD constexpr int most_patches() const { return 2 * halo_y() * (tile_w + 2 * halo_y() + box_h()); }
  // Stages, row results, blurred planes, taps, and the list of elements outside the volume.
  TC_HD constexpr int shared_bytes() const {
    return kStages * stage_bytes() + kResults * result_bytes() + kRing * ring_bytes() + 3 * kTapPitch * 4 +
           most_patches() * 4;
  }
};

TC_HD constexpr MarchShape march_shape(int element_bytes, int k) { return {.k = k, .element_bytes = element_bytes}; }

inline bool shared_by_all(const Taps& t) { return t.on_host && t.stride_n == 0 && t.stride_c == 0; }
inline float tap(const Taps& t, int i) { return static_cast<const float*>(t.data)[i]; }

// Three windows of 3x3x3 that come with the launch, the second and the third with the same row of taps along x: what
// every gradient has (derivative and smoothing along x, smoothing and derivative along y).
inline bool is_gradient(const Stage& s) {
  if (s.windows != 3 || s.kd != 3 || s.kh != 3 || s.kw != 3 || s.point != Point::l2) return false;
  for (int i = 0; i < 3; ++i)
    if (!shared_by_all(s.taps_x[i]) || !shared_by_all(s.taps_y[i]) || !shared_by_all(s.taps_z[i])) return false;
  for (int j = 0; j < 3; ++j)
    if (tap(s.taps_x[1], j) != tap(s.taps_x[2], j)) return false;
  return true;
}

// Windows of two taps each: (a, 0, b) along one axis, (0, 1, 0) along the others, a <= 0 <= b, b - a <= 1. Of finite
// voxels the taps of 0 add nothing (and nothing overflows on the way), so that three multiply-adds become two or none.
inline bool is_difference(const Stage& s) {
  for (int i = 0; i < 3; ++i) {
    const Taps* axes[] = {&s.taps_x[i], &s.taps_y[i], &s.taps_z[i]};
    for (int a = 0; a < 3; ++a) {
      const float before = tap(*axes[a], 0), middle = tap(*axes[a], 1), after = tap(*axes[a], 2);
      const bool serves = a == i ? before <= 0 && middle == 0 && after >= 0 && after - before <= 1
                                 : before == 0 && middle == 1 && after == 0;
      if (!serves) return false;
    }
  }
  return true;
}

inline bool march_serves(const Fused& p, const Arch& arch) {
  if (!arch.bulk_copy || p.count != 2 || p.valid || p.stride != 1 || p.border == Border::skip) return false;
  const Stage& blur = p.stages[0];
  const bool dtypes = p.in.dtype == p.out.dtype ? p.in.dtype == Dtype::f32 || p.in.dtype == Dtype::f16 ||
                                                      p.in.dtype == Dtype::bf16 || p.in.dtype == Dtype::u8
                                                : p.in.dtype == Dtype::u8 && p.out.dtype == Dtype::f32;
  return dtypes && blur.windows == 1 && blur.point == Point::each && blur.kd == blur.kh && blur.kh == blur.kw &&
         (blur.kw == 3 || blur.kw == 5 || blur.kw == 7) && is_gradient(p.stages[1]) &&
         (p.border != Border::constant || holds(p.in.dtype, p.value)) && p.in.stride_w == 1 && p.out.stride_w == 1 &&
         p.in.d < (1 << 30) && p.in.h < (1 << 30) && p.in.w < (1 << 30) && p.in.w * size_of(p.in.dtype) % 4 == 0 &&
         p.out.d == p.in.d && p.out.h == p.in.h && p.out.w == p.in.w && p.in.h * p.in.stride_h < (int64_t(1) << 31) &&
         tma::volume_possible(p.in);
}

inline int64_t march_tiles(const Fused& p, const MarchShape& s) {
  return p.out.n * p.out.c * ceil_div(p.out.h, s.tile_h()) * ceil_div(p.out.w, s.tile_w);
}

// Output planes of a block. A chunk of z reads k + 1 planes more than it has, and takes a few planes' time to start;
// rounds of resident blocks times that.
inline int march_chunk(const Fused& p, const MarchShape& s, const Arch& arch) {
  const int64_t extra = s.k + 1;
  return torch_conv::march_chunk(p.out.d, extra, [&](int64_t chunk) {
    const int64_t blocks = march_tiles(p, s) * ceil_div(p.out.d, chunk);
    return ceil_div(blocks, int64_t(arch.multiprocessors) * s.min_blocks) * (chunk + extra + 3);
  });
}

}  // namespace torch_conv::fused3d
