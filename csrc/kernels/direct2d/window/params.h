// WINDOW: the shape of its tiles, and the parameters of its kernel.
#pragma once

#include "core/peer_rows.h"
#include "core/problem.h"
#include "core/taps.h"

namespace torch_conv::direct2d {

constexpr int kWindowColumns = 128, kWindowRows = 8, kWindowWarps = 4;

// Elements of a row of the tile, rows of the tile, elements of a row of taps; bytes of shared memory.
struct WindowShape {
  int64_t pitch, rows, tap_pitch;
  int64_t bytes;
};

struct WindowArgs {
  Direct p;
  PeerRows peers;
  int pitch, rows, tap_pitch;  // see WindowShape
  int tiles_x, tiles_y;
  int in_per_group, out_per_group;
};

}  // namespace torch_conv::direct2d
