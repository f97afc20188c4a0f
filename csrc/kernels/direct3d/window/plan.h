// The volumes that `window` serves, and its plan.
#pragma once

#include "kernels/direct3d/config.h"
#include "kernels/direct3d/window/params.h"

namespace torch_conv::direct3d {

struct VolumeWindowShape {
  int width, height;                     // of the tile
  int64_t part, pitch, rows, tap_pitch;  // of a part of a row, a row, a plane of the input, and a row of taps
  int64_t bytes;                         // of shared memory
  int64_t blocks, padded;                // of the grid; pixels of a plane of tiles
};

void launch_window(const Direct& p, const Plan& plan, const Site& site);

inline VolumeWindowShape window_shape(const Direct& p, bool large, int width) {
  const bool f64 = p.in.dtype == Dtype::f64;
  const WindowTile tile = window_tile(large, size_of(p.in.dtype));
  const int parts = tile.pixels / 4, lanes = width / tile.pixels;
  VolumeWindowShape s{};
  s.width = width, s.height = kWindowWarps * 32 / lanes;
  // Reads run up to 8 elements behind the last tap; copies fill whole groups of 32. A part's length spreads 32
  // neighbours over all banks. Rows of fewer than 8 lanes are staggered.
  const int64_t fours = ceil_div(std::max(width / 4 + p.kw / 4 + 2, round_up(width + p.kw - 1, 32) / 4), parts);
  s.part = 4 * (parts == 4 ? round_up(fours + 2, 4) - 2 : round_up(fours + 4, 8) - 4);
  s.pitch = parts * s.part + (lanes < 8 ? 4 * lanes : 0);
  s.rows = s.height + p.kh - 1;
  s.tap_pitch = ceil_div(p.kw, 4) * 4;
  s.bytes =
      (2 * s.pitch * s.rows + (tile.planes + 1) * window_tap_stage(s.tap_pitch, p.kh)) * (f64 ? 8 : 4) + s.rows * 8;
  const int64_t columns = ceil_div(p.out.w, width), rows = ceil_div(p.out.h, s.height);
  s.padded = columns * width * rows * s.height;
  s.blocks = p.out.n * p.out.c * ceil_div(p.out.d, tile.planes) * columns * rows;
  return s;
}

// The width with the fewest pixels outside the output.
inline VolumeWindowShape window_shape(const Direct& p, bool large) {
  VolumeWindowShape best = window_shape(p, large, 128);
  for (const int width : {64, 32}) {
    const VolumeWindowShape s = window_shape(p, large, width);
    if (s.padded < best.padded) best = s;
  }
  return best;
}

inline const char* window_refusal(const Direct& p, const Arch& arch) {
  if (!p.place.unit_steps()) return "stride or dilation";
  if (p.place.border == Border::skip) return "border 'skip'";
  if (p.kh > 512 || p.kw > 512 || p.kd >= (1 << 20)) return "a window beyond 512x512";
  if (p.in.w * p.in.stride_w >= (int64_t(1) << 29)) return "rows of 2^29 elements";
  if (!sides_below(kMostSide, p)) return "2^30 planes, rows or columns";
  const bool fits =
      window_shape(p, true).bytes <= arch.shared_bytes || window_shape(p, false).bytes <= arch.shared_bytes;
  return fits ? nullptr : "a window beyond shared memory";
}

// True if lanes own neighbours of two planes: where that fills the multiprocessors. 9^3 float32, us, with two planes
// and with one: 96^3 (288 blocks) 79, 88; 64^3 (64 blocks) 48, 24.
inline bool window_large(const Direct& p, const Arch& arch) {
  const VolumeWindowShape large = window_shape(p, true), small = window_shape(p, false);
  if (large.bytes > arch.shared_bytes) return false;
  return arch.multiprocessors == 0 || small.bytes > arch.shared_bytes ||
         (large.blocks >= 2 * arch.multiprocessors && 4 * large.padded <= 5 * small.padded);
}

inline void configure_window(const Direct& p, const Arch& arch, Plan& plan) {
  const bool large = window_large(p, arch);
  const WindowTile tile = window_tile(large, size_of(p.in.dtype));
  const VolumeWindowShape shape = window_shape(p, large);
  plan.why = "stride and dilation 1: plane by plane of tile and taps in shared memory";
  plan.tile_w = shape.width;
  plan.tile_h = shape.height;
  plan.tile_d = tile.planes;
  plan.threads = tile.threads();
  plan.shared_bytes = int(shape.bytes);
  plan.blocks = shape.blocks;
  plan.kernels = {kernel_of("kernels/direct3d/window/kernel.cuh", "direct3d::direct3d_window", {p.in.dtype, large})};
  plan.config = shape;
}

}  // namespace torch_conv::direct3d
