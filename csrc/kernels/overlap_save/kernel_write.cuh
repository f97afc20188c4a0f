// WRITE: the tiles' sums, rounded to the image's pixels.
//
//       tile of sums
//     +---------------+
//     | wrapped around|
//     |   +-----------|
//     |   | outputs   |
//     +---+-----------+
//
// A thread writes kPixels neighbouring outputs of each of kWriteRows rows, as the mark of their cell says. A sum that
// is not finite marks its cell: a NaN, an infinity or an overflow in the tile reaches all its sums. Bytes a pixel: one
// read of the sums, one write of the image.
#pragma once

#include "core/cuda/device.cuh"
#include "core/cuda/store.cuh"
#include "kernels/overlap_save/params.h"

namespace torch_conv::overlap_save {

template <typename T>
__global__ void __launch_bounds__(kThreads) overlap_save_write(const __grid_constant__ WriteArgs a) {
  using A = acc_t<T>;
  const WriteTiles& p = a.p;
  const Direct& f = p.filter;
  const Placement& s = f.place;
  const unsigned unit = a.order.unit_of(blockIdx.x), block = blockIdx.x - unit * a.order.blocks.divisor;
  const Outputs outputs = Outputs::of(p);
  const int64_t row = int64_t(blockIdx.y) * kWriteRows, first = (int64_t(block) * kThreads + threadIdx.x) * kPixels;
  const Tile tile = a.order.tile_of(unit);
  const int64_t y = tile.row * outputs.h + row, x = tile.column * outputs.w + first;
  const int count = int(min(int64_t(kPixels), min(outputs.w - first, f.out.w - x)));
  const int rows = int(min(int64_t(kWriteRows), min(outputs.h - row, f.out.h - y)));
  if (rows <= 0 || count <= 0) return;
  const A* const from = static_cast<const A*>(p.sums.data) +
                        (unit * p.sums.h + outputs.from_h + row * s.stride_y) * p.sums.w + outputs.from_w +
                        first * s.stride_x;
  Mark* const marks = reinterpret_cast<Mark*>(p.marks) + unit * int64_t(a.cells.count());
  // All loads before the first store.
  A sum[kWriteRows][kPixels] = {};
#pragma unroll
  for (int r = 0; r < kWriteRows; ++r)
#pragma unroll
    for (int q = 0; q < kPixels; ++q)
      if (r < rows && q < count) sum[r][q] = from[r * s.stride_y * p.sums.w + q * s.stride_x] * A(a.scale);

#pragma unroll
  for (int r = 0; r < kWriteRows; ++r) {
    if (r >= rows) continue;
    Mark* mark = nullptr;
#pragma unroll
    for (int q = 0; q < kPixels; ++q) {
      if (q >= count) continue;
      // A cell holds whole vectors of outputs at a stride of 1.
      if (q == 0 || s.stride_x > 1) mark = marks + a.cells.at((row + r) * s.stride_y, (first + q) * s.stride_x);
      const A inside = s.normalized ? A(sum_inside(p, tile.n, tile.c, y + r, x + q)) : A(1);
      // Other threads read the mark before or after this: DIRECTLY makes all outputs of the cell again.
      if (!(sum[r][q] - sum[r][q] == 0) || inside < 0) *mark = Mark::directly;
      if (*mark == Mark::nothing || (*mark == Mark::clamp && !(sum[r][q] > 0))) sum[r][q] = 0;
      if (s.normalized) sum[r][q] = sum[r][q] / inside;
      if (s.border == Border::zero_output && !fits(f, y + r, x + q)) sum[r][q] = 0;
    }
    const int64_t at =
        tile.n * f.out.stride_n + tile.c * f.out.stride_c + (y + r) * f.out.stride_h + x * f.out.stride_w;
    if (a.packs && count == kPixels) {
      store_as(f.out, at, sum[r]);
      continue;
    }
#pragma unroll
    for (int q = 0; q < kPixels; ++q)
      if (q < count) store_as(f.out, at + q * f.out.stride_w, sum[r][q]);
  }
}

}  // namespace torch_conv::overlap_save
