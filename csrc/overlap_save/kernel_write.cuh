// WRITE: the tiles' sums, rounded to the image's pixels.
//
//      tile of sums
//    +---------------+
//    | wrapped around|    a thread writes four neighbouring outputs of a row; where one of them is marked or its sum is
//    |   +-----------|    not finite (a NaN, an infinity or an overflow in the tile reaches all its sums) it adds up
//    |   | outputs   |    the four windows tap by tap, in the order of the direct kernels
//    +---+-----------+
// Bytes a pixel: one read of the sums, one write of the image.
#pragma once

#include "core/general.cuh"
#include "core/store.cuh"
#include "overlap_save/params.h"

namespace torch_conv::overlap_save {

// The direct sums of four outputs.
template <typename T, typename A>
__device__ __noinline__ void add_windows(const Direct& p, const A* taps, int64_t n, int64_t c, int64_t y, int64_t x,
                                         A (&sum)[kPixels]) {
  const Placement& s = p.place;
  const T* plane = static_cast<const T*>(p.in.data) + n * p.in.stride_n + c * p.in.stride_c;
  for (int q = 0; q < kPixels; ++q) sum[q] = 0;
  for (int64_t i = 0; i < p.kh; ++i) {
    const int64_t m = map_index(y * s.stride_y + i * s.dilation_y - s.pad_y, p.in.h, s.border);
    add_window_row<T, A>(p, m < 0 ? nullptr : plane + m * p.in.stride_h, taps + i * p.kw, x, sum);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) overlap_save_write(const __grid_constant__ WriteArgs a) {
  using A = acc_t<T>;
  const WriteTiles& p = a.p;
  const Direct& f = p.filter;
  const unsigned unit = a.order.unit_of(blockIdx.x), block = blockIdx.x - unit * a.order.blocks.divisor;
  const Outputs outputs = Outputs::of(p);
  const int64_t row = blockIdx.y, first = (int64_t(block) * kThreads + threadIdx.x) * kPixels;
  const Tile tile = a.order.tile_of(unit);
  const int64_t y = tile.row * outputs.h + row, x = tile.column * outputs.w + first;
  const int64_t count = min(int64_t(kPixels), min(outputs.w - first, f.out.w - x));
  if (y >= f.out.h || count <= 0) return;
  const A* from = static_cast<const A*>(p.sums.data) +
                  (unit * p.sums.h + outputs.from_h + row * f.place.stride_y) * p.sums.w + outputs.from_w +
                  first * f.place.stride_x;
  const A* taps = static_cast<const A*>(f.taps.data) + tile.n * f.taps.stride_n + tile.c * f.taps.stride_c;

  const Mark* const marks = reinterpret_cast<const Mark*>(p.marks) + unit * int64_t(a.cells.count());
  A sum[kPixels] = {}, inside[kPixels];
  bool again = false;
  Mark mark = Mark::keep;
  for (int q = 0; q < count; ++q) {
    // A cell holds whole vectors of outputs at a stride of 1.
    if (q == 0 || f.place.stride_x > 1)
      mark = marks[a.cells.at(row * f.place.stride_y, (first + q) * f.place.stride_x)];
    sum[q] = from[q * f.place.stride_x] * A(a.scale);
    inside[q] = f.place.normalized ? A(sum_inside(p, tile.n, tile.c, y, x + q)) : A(1);
    again |= !(sum[q] - sum[q] == 0) || inside[q] < 0 || mark == Mark::directly;
    if (mark == Mark::nothing || (mark == Mark::clamp && !(sum[q] > 0))) sum[q] = 0;
  }
  if (again) {
    add_windows<T, A>(f, taps, tile.n, tile.c, y, x, sum);
    if (f.place.normalized)
      for (int q = 0; q < count; ++q) inside[q] = taps_inside<2>(f, Neighbours{}, taps, 0, y, x + q);
  }
  for (int q = 0; q < count; ++q) {
    if (f.place.normalized) sum[q] = sum[q] / inside[q];
    if (f.place.border == Border::zero_output && !fits(f, y, x + q)) sum[q] = 0;
  }
  const int64_t at = tile.n * f.out.stride_n + tile.c * f.out.stride_c + y * f.out.stride_h + x * f.out.stride_w;
  if (a.packs && count == kPixels) return store_as(f.out, at, sum);
  for (int q = 0; q < count; ++q) store_as(f.out, at + q * f.out.stride_w, sum[q]);
}

}  // namespace torch_conv::overlap_save
