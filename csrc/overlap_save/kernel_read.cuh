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
  const unsigned unit = a.order.unit_of(blockIdx.x), block = blockIdx.x - unit * a.order.blocks.divisor;
  const Tile tile = a.order.tile_of(unit);
  const int64_t first = int64_t(block) * kThreads * kPixels + threadIdx.x, y = blockIdx.y;
  const int64_t row = map_index(tile.row * p.tiles.step_h - p.place.pad_y + y, p.in.h, p.place.border);
  const T* const from = static_cast<const T*>(p.in.data) + tile.n * p.in.stride_n + tile.c * p.in.stride_c +
                        max(row, int64_t(0)) * p.in.stride_h;
  A* const to = static_cast<A*>(p.tiles.data) + (unit * p.tiles.h + y) * p.tiles.w;
  const A outside = A(outside_of(p.place));
  // All loads before the first store.
  A pixel[kPixels];
#pragma unroll
  for (int q = 0; q < kPixels; ++q) {
    const int64_t x = tile.column * p.tiles.step_w - p.place.pad_x + first + q * kThreads;
    const int64_t column = first + q * kThreads < p.tiles.w ? map_index(x, p.in.w, p.place.border) : -1;
    pixel[q] = row >= 0 && column >= 0 ? to_acc<A>(from[column * p.in.stride_w]) : outside;
  }
#pragma unroll
  for (int q = 0; q < kPixels; ++q)
    if (first + q * kThreads < p.tiles.w) to[first + q * kThreads] = pixel[q];
}

}  // namespace torch_conv::overlap_save
