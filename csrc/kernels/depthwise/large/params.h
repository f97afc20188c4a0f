// LARGE: the parameters of its kernel.
#pragma once

#include "core/problem.h"

namespace torch_conv::depthwise {

constexpr int kLargeRows = 4, kLargeColumns = 8;  // outputs of a thread
constexpr int kLargeZeroRow = 256;                // bytes of zeros, for rows outside

struct LargeShape {
  int side = 0;                // neighbouring lanes of a warp on one slab
  int images = 0, strips = 0;  // 32 / side in all
  int strip_rows = 0;
  int tile_h = 0, tile_w = 0, tiles_y = 0, tiles_x = 0;
  int row_groups = 0, column_tiles = 0;  // warps' tiles
  int slab_columns = 0;
  int pitch = 0, gap = 0, strip_stride = 0, image_stride = 0;  // bytes in shared memory
  int shared_bytes = 0;
  int warps = 0;
};

struct LargeArgs {
  Depthwise p;
  LargeShape s;
  int multiplier;
  bool store_vectors;  // of four outputs
};

}  // namespace torch_conv::depthwise
