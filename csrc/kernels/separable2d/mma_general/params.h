// MMA_GENERAL: the parameters of its kernels, and its shared memory.
#pragma once

#include "kernels/separable2d/mma/params.h"

namespace torch_conv::separable2d {

// Columns of a block's outputs, as groups of 8: an mma has so many.
constexpr int kMmaGeneralGroups = 8, kMmaGeneralColumns = 8 * kMmaGeneralGroups;

// Groups of 8 columns of sums that a block's outputs need, an even number. The second group of a tile of bytes has its
// odd columns.
constexpr int mma_general_groups(const MmaPolicy& s) {
  const int each = s.tile() / 8;
  return (kMmaGeneralGroups + (s.tiles - 1) * each + 1) / 2 * 2;
}

// Bytes of shared memory: bands of taps, taps, sums of every warp, then the box of pixels. A column of the box lies in
// one piece; `pitch` elements from column to column, 8 modulo 16, leave no bank conflicts.
struct MmaGeneralMemory {
  int taps_at, sums_at, box_at, pitch, bytes;

  static constexpr MmaGeneralMemory of(const MmaPolicy& s) {
    const int groups = mma_general_groups(s);
    MmaGeneralMemory m{.taps_at = 4 * 32 * s.parts * s.band_words(), .pitch = s.box_h() / 16 * 16 + 8};
    m.sums_at = m.taps_at + 2 * 4 * s.taps_held;
    m.box_at = m.sums_at + 8 * 32 * s.bands() * s.parts * groups;
    m.bytes = m.box_at + 2 * m.pitch * 8 * groups;
    return m;
  }
};

struct MmaGeneralArgs {
  BandArgs band;  // its `order` counts blocks, and each of the interleaved channels; `segment` is MMA's
  MmaPolicy shape;
  MmaGeneralMemory memory;
};

}  // namespace torch_conv::separable2d
