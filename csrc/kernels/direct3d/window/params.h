// WINDOW: the shape of its tiles, and the parameters of its kernels.
#pragma once

#include "core/problem.h"
#include "core/taps.h"

namespace torch_conv::direct3d {

constexpr int kWindowWarps = 4;

// Four warps compute a tile of one or two output planes while the loaders load the next plane of the input.
struct WindowTile {
  int pixels, planes;  // of a lane
  int loaders;         // warps that load planes; 0: the computing warps do
  int resident;        // blocks of a multiprocessor; the cap of the registers follows from it
  constexpr int threads() const { return 32 * (kWindowWarps + loaders); }
};

// `large`: lanes own neighbours of two planes. `bytes`: of an element. For float32 and float64 loading only starts
// copies: with `large` the computing warps start them. 9^3, one NVIDIA H200, us, 64^3 / 128^3 / 256^3:
//
//     float32, 16 pixels of 2 planes; with one loader and two blocks       48 / 139 / 835; 63 / 143 / 1120
//     float32, 8 pixels of 1 plane; with eight loaders and one block       24 / 175 / 1345; 37 / 277 / 2129
//     float16, four loaders; two loaders                                   - / 116 / 900; - / 143 / 1116
constexpr WindowTile window_tile(bool large, int bytes) {
  if (!large) return {.pixels = 8, .planes = 1, .loaders = 4, .resident = 2};
  if (bytes == 8) return {.pixels = 8, .planes = 2, .loaders = 0, .resident = 3};
  return {.pixels = 16, .planes = 2, .loaders = bytes == 4 ? 0 : 4, .resident = bytes == 4 ? 3 : 2};
}

// Elements of one plane of taps. The kernel reads four more behind it, and does not use them.
constexpr TC_HD int64_t window_tap_stage(int64_t tap_pitch, int64_t kh) { return tap_pitch * kh + 4; }

struct WindowArgs {
  Direct p;
  int part, pitch, rows, tap_pitch;  // of a part of a row, a row, a plane, and a row of taps, in elements
  int tiles_x, tiles_y;
  int width_log2;  // of the tile
  int in_per_group, out_per_group;
};

}  // namespace torch_conv::direct3d
