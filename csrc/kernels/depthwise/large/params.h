// What LARGE's launch and kernel agree on.
#pragma once

#include "core/problem.h"

namespace torch_conv::depthwise {

constexpr int kLargeRows = 4, kLargeColumns = 8;  // outputs of a thread
constexpr int kLargeZeroRow = 256;                // bytes of zeros, for rows outside

struct LargePlanesShape {
  int side = 0;                // lanes of a warp side by side
  int images = 0, strips = 0;  // 32 / side in all
  int strip_rows = 0;
  int tile_h = 0, tile_w = 0, tiles_y = 0, tiles_x = 0;
  int row_groups = 0, column_tiles = 0;  // warps' tiles
  int slab_columns = 0;
  int pitch = 0, gap = 0, strip_stride = 0, image_stride = 0;  // bytes in shared memory
  int shared_bytes = 0;
  int warps = 0;
};

struct LargePlanesArgs {
  Depthwise p;
  LargePlanesShape s;
  int multiplier;
  bool store_words;  // four outputs as one word
};

}  // namespace torch_conv::depthwise
