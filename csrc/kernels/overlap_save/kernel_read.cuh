// READ: tiles of images that are extended by the border, in the accumulation dtype.
//
//       image         tile (0, 0)  tile (0, 1)
//     +-------+        ..+----       ----+..
//     |       |        ..|               |..
//     +-------+
//
// A thread writes kPixels pixels of each of some rows of a tile. A cell's largest exponent is a maximum over its
// pixels, so the order of atomics does not matter. Bytes a pixel: one read of the image, one write of the tile; tiles
// overlap by the window's span less one.
#pragma once

#include "core/cuda/device.cuh"
#include "kernels/overlap_save/params.h"

namespace torch_conv::overlap_save {

// The bits of |v|.
__device__ __forceinline__ uint32_t magnitude_bits(float v) { return __float_as_uint(v) & 0x7fffffffu; }
__device__ __forceinline__ uint64_t magnitude_bits(double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits & ~(uint64_t(1) << 63);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) overlap_save_read(const __grid_constant__ ReadArgs a) {
  using A = acc_t<T>;
  const ReadTiles& p = a.p;
  const unsigned unit = a.order.unit_of(blockIdx.x), block = blockIdx.x - unit * a.order.blocks.divisor;
  const Tile tile = a.order.tile_of(unit);
  const int64_t first = int64_t(block) * kThreads * kPixels + threadIdx.x, first_y = int64_t(blockIdx.y) * a.rows;
  const T* const image = static_cast<const T*>(p.in.data) + tile.n * p.in.stride_n + tile.c * p.in.stride_c;
  const A outside = A(outside_of(p.place));
  int64_t column[kPixels];  // of the image; -1 where the border map has none
  bool read[kPixels];       // by some window
#pragma unroll
  for (int q = 0; q < kPixels; ++q) {
    const int64_t x = tile.column * p.tiles.step_w - p.place.pad_x + first + q * kThreads;
    read[q] = x < p.end_x && first + q * kThreads < p.tiles.w;
    column[q] = read[q] ? map_index(x, p.in.w, p.place.border) : -1;
  }
  decltype(magnitude_bits(A())) largest[kPixels] = {};
  bool negative = false;
  for (int64_t y = first_y; y < min(first_y + a.rows, p.tiles.h); ++y) {
    const int64_t in_y = tile.row * p.tiles.step_h - p.place.pad_y + y;
    const bool read_row = in_y < p.end_y;
    const int64_t row = read_row ? map_index(in_y, p.in.h, p.place.border) : -1;
    const T* const from = image + max(row, int64_t(0)) * p.in.stride_h;
    A* const to = static_cast<A*>(p.tiles.data) + (unit * p.tiles.h + y) * p.tiles.w;
    // All loads before the first store.
    A pixel[kPixels];
#pragma unroll
    for (int q = 0; q < kPixels; ++q)
      pixel[q] = !(read_row && read[q])       ? A(0)
                 : row >= 0 && column[q] >= 0 ? to_acc<A>(from[column[q] * p.in.stride_w])
                                              : outside;
#pragma unroll
    for (int q = 0; q < kPixels; ++q) {
      if (first + q * kThreads < p.tiles.w) to[first + q * kThreads] = pixel[q];
      largest[q] = max(largest[q], magnitude_bits(pixel[q]));
      negative |= pixel[q] < 0;
    }
  }

  // The rows are of one row of cells, and each half of a warp has pixels of one cell.
  int32_t* const notes = p.notes + unit * int64_t(a.cells.notes());
#pragma unroll
  for (int q = 0; q < kPixels; ++q) {
    int exponent = exponent_of(largest[q]);
#pragma unroll
    for (int far = 8; far; far /= 2) exponent = max(exponent, __shfl_xor_sync(~0u, exponent, far));
    const int64_t x = first + q * kThreads;
    if (threadIdx.x % 16 == 0 && x < p.tiles.w && exponent) atomicMax(notes + a.cells.at(first_y, x), exponent);
  }
  if (__any_sync(~0u, negative) && threadIdx.x % 32 == 0) notes[a.cells.count()] = 1;
}

}  // namespace torch_conv::overlap_save
