// READ: tiles of images that go on beyond their edges, in the accumulation dtype.
//
//      image         tile (0, 0)  tile (0, 1)
//    +-------+        ..+----       ----+..      a thread fills one pixel of a tile; the border map says which pixel
//    |       |        ..|               |..      of the image it is
//    +-------+
// Bytes a pixel: one read of the image, one write of the tile; tiles overlap by the window's span less one.
#pragma once

#include "core/device.cuh"
#include "overlap_save/params.h"

namespace torch_conv::overlap_save {

template <typename T>
__global__ void __launch_bounds__(kThreads) overlap_save_read(const __grid_constant__ ReadArgs a) {
  using A = acc_t<T>;
  const ReadTiles& p = a.p;
  const unsigned unit = blockIdx.x / a.blocks, block = blockIdx.x % a.blocks;
  const int64_t x = int64_t(block) * kThreads + threadIdx.x, y = blockIdx.y;
  if (x >= p.tiles.w) return;
  const Tile tile = Tile::of(p.tiles, p.in.c, unit);
  const int64_t row = map_index(tile.row * p.tiles.step_h - p.place.pad_y + y, p.in.h, p.place.border);
  const int64_t column = map_index(tile.column * p.tiles.step_w - p.place.pad_x + x, p.in.w, p.place.border);
  A pixel = A(outside_of(p.place));
  if (row >= 0 && column >= 0)
    pixel = to_acc<A>(static_cast<const T*>(
        p.in.data)[tile.n * p.in.stride_n + tile.c * p.in.stride_c + row * p.in.stride_h + column * p.in.stride_w]);
  static_cast<A*>(p.tiles.data)[(unit * p.tiles.h + y) * p.tiles.w + x] = pixel;
}

}  // namespace torch_conv::overlap_save
