// DIRECTLY: the outputs of marked cells once more, tap by tap, in the order of the direct kernels.
//
// A block reads kCells marks of a tile. Its threads share the outputs of the marked cells, four neighbours at a time.
// Mostly no cell is marked, and the marks are all that is read.
#pragma once

#include "core/cuda/general_window.cuh"
#include "core/cuda/store.cuh"
#include "kernels/overlap_save/params.h"

namespace torch_conv::overlap_save {

// Up to four neighbouring outputs, from (y, x) of the image on.
template <typename T>
__device__ void write_directly(const Direct& p, const Tile& tile, int64_t y, int64_t x, int count) {
  using A = acc_t<T>;
  const Placement& s = p.place;
  const A* const taps = taps_of<A>(p, tile);
  const T* const plane = static_cast<const T*>(p.in.data) + tile.n * p.in.stride_n + tile.c * p.in.stride_c;
  A sum[kPixels] = {};
  for (int64_t i = 0; i < p.kh; ++i) {
    const int64_t m = map_index(y * s.stride_y + i * s.dilation_y - s.pad_y, p.in.h, s.border);
    add_window_row<T, A>(p, m < 0 ? nullptr : plane + m * p.in.stride_h, taps + i * p.kw, x, sum);
  }
  const int64_t at = tile.n * p.out.stride_n + tile.c * p.out.stride_c + y * p.out.stride_h + x * p.out.stride_w;
#pragma unroll
  for (int q = 0; q < kPixels; ++q) {
    if (q >= count) continue;
    if (s.normalized) sum[q] = sum[q] / taps_inside<2>(p, PeerRows{}, taps, 0, y, x + q);
    if (s.border == Border::zero_output && !fits(p, y, x + q)) sum[q] = 0;
    store_as(p.out, at + q * p.out.stride_w, sum[q]);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) overlap_save_directly(const __grid_constant__ WriteArgs a) {
  const Direct& f = a.p.filter;
  const Placement& s = f.place;
  const Cells& cells = a.cells;
  const int64_t unit = blockIdx.x;
  const int first = blockIdx.y * kCells, lane = threadIdx.x % 32;
  const Mark* const marks = reinterpret_cast<const Mark*>(a.p.marks) + unit * cells.count();
  const bool mine = lane < kCells && first + lane < cells.count() && marks[first + lane] == Mark::directly;
  const unsigned marked = __ballot_sync(~0u, mine);
  if (marked == 0) return;

  const Outputs outputs = Outputs::of(a.p);
  const Tile tile = a.order.tile_of(unsigned(unit));
  const int64_t top = tile.row * outputs.h, left = tile.column * outputs.w;
  // At most so many output rows start in a cell.
  const int rows = int(ceil_div(int64_t(1) << cells.log_h, s.stride_y));
  const int fours = int(ceil_div(ceil_div(int64_t(1) << cells.log_w, s.stride_x), int64_t(kPixels)));
  for (int i = threadIdx.x; i < __popc(marked) * rows * fours; i += kThreads) {
    unsigned rest = marked;
    for (int before = i / (rows * fours); before > 0; --before) rest &= rest - 1;
    const int cell = first + __ffs(rest) - 1, row = cell / cells.columns, column = cell % cells.columns;
    const Range in_y = outputs_of({row, row + 1}, cells.log_h, s.stride_y, min(outputs.h, f.out.h - top));
    const Range in_x = outputs_of({column, column + 1}, cells.log_w, s.stride_x, min(outputs.w, f.out.w - left));
    const int64_t y = in_y.begin + i / fours % rows, x = in_x.begin + i % fours * kPixels;
    if (y < in_y.end && x < in_x.end)
      write_directly<T>(f, tile, top + y, left + x, int(min(int64_t(kPixels), in_x.end - x)));
  }
}

}  // namespace torch_conv::overlap_save
