// The grid and the taps of kernels that stream through volumes, for host and kernel.
#pragma once

#include <cstdint>

#include "core/border.h"
#include "core/problem.h"

namespace torch_conv {

constexpr int kTapPitch = 16;  // floats of one window in shared memory
// Planes that a block reads, at most: their positions are in shared memory. 512 planes and the halos of any window are
// one chunk. Separable 15x15x15 of float32, 512^3 on 132 multiprocessors: one chunk takes the time of 529 planes, two
// take 546.
constexpr int kMostPlanes = 640;

// Whether the kernel must overwrite the zeros that bulk copies write outside the volume.
inline bool patches_border(Border border, double value) {
  return border != Border::zero_output && !(border == Border::constant && value == 0);
}

// The taps of one axis in a kernel's parameters.
struct StreamingTaps {
  const void* device;  // null: the taps are in the parameters, from `start` on
  int start;
  int64_t stride_n, stride_c;
};

// The grid of a kernel that streams along z, from the innermost axis: tiles of a row, rows of tiles, chunks along z,
// channels, samples.
struct StreamingGrid {
  unsigned tiles_x, tiles_y, chunks, channels;

  // `lead`: the first tile starts that many columns left of the output.
  static StreamingGrid of(const Image& out, int64_t lead, int tile_w, int tile_h, int tile_d) {
    return {unsigned(ceil_div(out.w + lead, tile_w)), unsigned(ceil_div(out.h, tile_h)),
            unsigned(ceil_div(out.d, tile_d)), unsigned(out.c)};
  }

  struct Position {
    int x, y, chunk, c, n;
  };
  TC_HD Position at(unsigned block) const {
    Position position;
    position.x = int(block % tiles_x), block /= tiles_x;
    position.y = int(block % tiles_y), block /= tiles_y;
    position.chunk = int(block % chunks), block /= chunks;
    position.c = int(block % channels), position.n = int(block / channels);
    return position;
  }
};

}  // namespace torch_conv
