// Which separable filters of volumes one launch serves, and with which tile. Pure functions of sizes, dtypes and the
// machine.
#pragma once

#include <cstdint>

#include "core/march.cuh"
#include "core/rooms.h"
#include "core/tma.h"

namespace torch_conv::separable3d {

constexpr int kStages = 5;   // planes in shared memory: one filtered, two patched, two on their way
constexpr int kResults = 3;  // planes of row results: written, read, and read by the slowest
constexpr int kSegment = 8;  // neighbouring outputs of a thread in the row pass
constexpr int kStaticBytes = 4 * kMostPlanes + 64;  // of shared memory: that list and the barriers

// A block of `warps` warps computes tile_w x tile_h() outputs of every plane; a thread owns one column of `rows` of
// them.
struct MarchShape {
  int k, element_bytes;
  int tile_w, rows, warps, min_blocks;  // min_blocks: per multiprocessor, the register cap

  TC_HD constexpr int threads() const { return 32 * warps; }
  TC_HD constexpr int tile_h() const { return warps / (tile_w / 32) * rows; }
  TC_HD constexpr int box_h() const { return tile_h() + k - 1; }
  // Elements between the box's start, aligned to 32 bytes, and the first tap of output 0, for pad_x == k / 2.
  TC_HD constexpr int shift() const {
    return (32 / element_bytes - k / 2 % (32 / element_bytes)) % (32 / element_bytes);
  }
  // Rows of the box and of row results are odd multiples of 16 bytes: lanes on different rows hit different banks.
  TC_HD constexpr int pitch() const {
    return int((ceil_div((shift() + tile_w + k - 1) * element_bytes, 16) | 1) * 16 / element_bytes);
  }
  // The row pass of a warp: 32 segments of this many rows.
  TC_HD constexpr int item_rows() const { return tile_w == 32 ? 8 : 4; }
  TC_HD constexpr int result_pitch() const { return tile_w + 4; }
  TC_HD constexpr int result_rows() const { return int(round_up(box_h(), item_rows())); }
  TC_HD constexpr int box_bytes() const { return pitch() * box_h() * element_bytes; }
  TC_HD constexpr int stage_bytes() const { return int(round_up(box_bytes(), 128)); }
  TC_HD constexpr int result_bytes() const { return result_rows() * result_pitch() * 4; }
  // Of the box's elements that outputs need, at most k - 1 rows and k - 1 columns lie outside the image.
  TC_HD constexpr int most_patches() const { return (k - 1) * (tile_w + box_h()); }
  // Stages, planes of row results, taps, and the list of the box's elements outside the image.
  TC_HD constexpr int shared_bytes() const {
    return kStages * stage_bytes() + kResults * result_bytes() + 3 * kTapPitch * 4 + most_patches() * 8;
  }
};

// The k - 1 sums of every output stay in registers: 8 outputs a thread up to 9x9x9, 4 beyond. One block of 16 warps: a
// tile of 64x64 has fewer halo rows than two blocks of 64x32 (float32 7x7x7, 512^3, one NVIDIA H200: 286 against 342
// us; 256^3 47 and 48), for 15x15x15 32x64 fewer than 64x32 (553, 588 us).
TC_HD constexpr MarchShape march_shape(int element_bytes, int k) {
  MarchShape s{.k = k, .element_bytes = element_bytes, .tile_w = 64, .rows = 8, .warps = 16, .min_blocks = 1};
  if (k > 9) s.tile_w = 32, s.rows = 4;
  return s;
}

// One window for all that comes with the launch may stand in the code's constants instead of shared memory: 15x15x15
// float32, 512^3, 553 -> 489 us; 7x7x7 286 -> 325 us (one NVIDIA H200).
constexpr bool fixed_taps_help(int k) { return k > 9; }

inline bool fixed_taps(const Separable& p) {
  auto one = [](const Taps& t) { return t.on_host && t.stride_n == 0 && t.stride_c == 0; };
  return one(p.taps_x) && one(p.taps_y) && one(p.taps_z);
}

// Boxes start on 32 bytes.
inline int lead_columns(const Separable& p) { return tma::lead_columns(p.kw, p.place.pad_x, 32 / size_of(p.in.dtype)); }

inline bool march_serves(const Separable& p, const Arch& arch) {
  const Placement& at = p.place;
  auto near = [](int64_t in, int64_t out, int64_t k, int64_t pad) {
    return pad >= 0 && pad < k && out <= in && in < (1 << 30);
  };
  return arch.bulk_copy && p.in.dtype == p.out.dtype && p.in.dtype != Dtype::f64 && p.kd == p.kh && p.kh == p.kw &&
         p.kw >= 3 && p.kw <= 15 && p.kw % 2 == 1 && at.stride_z == 1 && at.stride_y == 1 && at.stride_x == 1 &&
         at.dilation_z == 1 && at.dilation_y == 1 && at.dilation_x == 1 && at.border != Border::skip &&
         (at.border != Border::constant || holds(p.in.dtype, at.value)) && p.in.stride_w == 1 && p.out.stride_w == 1 &&
         near(p.in.d, p.out.d, p.kd, at.pad_z) && near(p.in.h, p.out.h, p.kh, at.pad_y) &&
         near(p.in.w, p.out.w, p.kw, at.pad_x) && p.in.w * size_of(p.in.dtype) % 4 == 0 &&
         p.in.h * p.in.stride_h < (int64_t(1) << 31) && tma::volume_possible(p.in);
}

inline int64_t march_tiles(const Separable& p, const MarchShape& s) {
  return p.out.n * p.out.c * ceil_div(p.out.h, s.tile_h()) * ceil_div(p.out.w + lead_columns(p), s.tile_w);
}

// A chunk of z filters k - 1 planes more than it has, and takes a few planes' time to start; rounds of resident blocks
// times that, in planes of a tile.
inline int64_t march_cost(const Separable& p, const MarchShape& s, const Arch& arch, int64_t chunk) {
  const int64_t resident = int64_t(arch.multiprocessors) * s.min_blocks;
  return ceil_div(march_tiles(p, s) * ceil_div(p.out.d, chunk), resident) * (chunk + p.kd + 2);
}

// Output planes of a block.
inline int march_chunk(const Separable& p, const MarchShape& s, const Arch& arch) {
  return torch_conv::march_chunk(p.out.d, p.kd - 1, [&](int64_t chunk) { return march_cost(p, s, arch, chunk); });
}

// Is one launch faster than the planes' filter and a depth pass? Not for small float32 volumes, whose chunks are mostly
// halo along z. us on one NVIDIA H200, float32: a plane of a tile takes 1.15 (64x64, up to 9x9x9), 0.8 (11) or 0.96
// (15), more where borders are patched or taps are read from shared memory; two launches take 6 and 3.8 (3) .. 4.6 (15)
// a million voxels. 256^3, one launch and two: k = 3 44, 74; 7 47, 75; 9 53, 78; 11 61, 77; 15 78, 83; reflect 47, 74;
// 53, 76; 61, 79; 76, 80; 92, 94. 128^3, reflect: k = 3 12, 13; 7 18, 15; 15 30, 21.
inline bool march_wins(const Separable& p, const MarchShape& s, const Arch& arch, int64_t chunk) {
  if (p.in.dtype != Dtype::f32) return true;
  const double voxels = double(p.out.n) * p.out.c * p.out.d * p.out.h * p.out.w, k = double(p.kd);
  const double border = patches_border(p.place.border, p.place.value) ? 1.05 + 0.012 * k : 1;
  const double taps = fixed_taps_help(int(p.kd)) && !fixed_taps(p) ? 1.15 : 1;
  const double plane = (p.kd <= 9 ? 1.15 : 0.32 + 0.042 * k) * border * taps;
  return plane * double(march_cost(p, s, arch, chunk)) < 1.15 * (6 + (3.6 + 0.065 * k) * 1e-6 * voxels);
}

}  // namespace torch_conv::separable3d
