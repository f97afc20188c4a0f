// MMA_GENERAL: the parameters of its kernels, and its shared memory.
#pragma once

#include "kernels/direct2d/mma/params.h"

namespace torch_conv::direct2d {

// Warps of a block. Four resident blocks leave a thread 64 registers, which suffice without spills.
constexpr int kMmaGeneralWarps = 8, kMmaGeneralBlocks = 4;

// Bytes of shared memory: the matrices of taps, the taps, then the box of one channel. A row of the box is a whole
// number of words of two pixels.
struct MmaGeneralMemory {
  int taps_at, box_at, pitch, bytes;

  static constexpr MmaGeneralMemory of(const MmaShape& s, int parts) {
    MmaGeneralMemory m{.taps_at = 8 * 32 * s.pairs * s.spans * parts, .pitch = s.width() - s.patch_w + 8 * s.spans};
    m.box_at = m.taps_at + 4 * s.all_taps();
    m.bytes = m.box_at + 2 * m.pitch * s.box_h();
    return m;
  }
};

struct MmaGeneralArgs {
  MmaArgs mma;  // its `order` counts each of the interleaved channels
  MmaShape shape;
  MmaGeneralMemory memory;
  int step;   // columns from tile to tile
  int pixel;  // elements from one pixel of a row to the next
};

}  // namespace torch_conv::direct2d
