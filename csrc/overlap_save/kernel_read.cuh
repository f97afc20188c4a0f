// READ: tiles of images that go on beyond their edges, in the accumulation dtype.
//
//      image         tile (0, 0)  tile (0, 1)
//    +-------+        ..+----       ----+..      a thread fills one pixel of a tile; the border map says which pixel
//    |       |        ..|               |..      of the image it is
//    +-------+
// A cell's largest exponent is a maximum over its pixels, so that the order of atomics does not matter.
//
// Bytes a pixel: one read of the image, one write of the tile; tiles overlap by the window's span less one.
#pragma once

#include "core/device.cuh"
#include "overlap_save/params.h"

namespace torch_conv::overlap_save {

// The bits of |v|.
__device__ __forceinline__ uint32_t magnitude_bits(float v) { return __float_as_uint(v) & 0x7fffffffu; }
__device__ __forceinline__ uint64_t magnitude_bits(double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits & ~(uint64_t(1) << 63);
}

// A tile's notes of pixels that the threads of a warp have side by side; each half of a warp has those of one cell.
// Most pixels find that a larger one of their cell has been noted.
template <typename A>
__device__ __forceinline__ void note(const Cells& cells, int32_t* notes, int64_t y, int64_t x, int64_t w, A pixel) {
  int exponent = x < w ? exponent_of(magnitude_bits(pixel)) : 0;
#pragma unroll
  for (int far = 8; far; far /= 2) exponent = max(exponent, __shfl_xor_sync(~0u, exponent, far));
  if (threadIdx.x % 16 != 0 || x >= w) return;
  int32_t* const cell = notes + cells.at(y, x);
  if (*cell < exponent) atomicMax(cell, exponent);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) overlap_save_read(const __grid_constant__ ReadArgs a) {
  using A = acc_t<T>;
  const ReadTiles& p = a.p;
  const unsigned unit = a.order.unit_of(blockIdx.x), block = blockIdx.x - unit * a.order.blocks.divisor;
  const Tile tile = a.order.tile_of(unit);
  const int64_t first = int64_t(block) * kThreads * kPixels + threadIdx.x, y = blockIdx.y;
  const int64_t in_y = tile.row * p.tiles.step_h - p.place.pad_y + y;
  const bool read_row = in_y < p.end_y;
  const int64_t row = read_row ? map_index(in_y, p.in.h, p.place.border) : -1;
  const T* const from = static_cast<const T*>(p.in.data) + tile.n * p.in.stride_n + tile.c * p.in.stride_c +
                        max(row, int64_t(0)) * p.in.stride_h;
  A* const to = static_cast<A*>(p.tiles.data) + (unit * p.tiles.h + y) * p.tiles.w;
  const A outside = A(outside_of(p.place));
  // All loads before the first store.
  A pixel[kPixels];
#pragma unroll
  for (int q = 0; q < kPixels; ++q) {
    const int64_t x = tile.column * p.tiles.step_w - p.place.pad_x + first + q * kThreads;
    const bool read = read_row && x < p.end_x && first + q * kThreads < p.tiles.w;
    const int64_t column = read ? map_index(x, p.in.w, p.place.border) : -1;
    pixel[q] = !read ? A(0) : row >= 0 && column >= 0 ? to_acc<A>(from[column * p.in.stride_w]) : outside;
  }
#pragma unroll
  for (int q = 0; q < kPixels; ++q)
    if (first + q * kThreads < p.tiles.w) to[first + q * kThreads] = pixel[q];
  int32_t* const notes = p.notes + unit * int64_t(a.cells.notes());
  bool negative = false;
#pragma unroll
  for (int q = 0; q < kPixels; ++q) {
    note(a.cells, notes, y, first + q * kThreads, p.tiles.w, pixel[q]);
    negative |= pixel[q] < 0;
  }
  if (__any_sync(~0u, negative) && threadIdx.x % 32 == 0) notes[a.cells.count()] = 1;
}

}  // namespace torch_conv::overlap_save
