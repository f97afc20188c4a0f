// DIRECTLY: the outputs of marked cells once more, tap by tap, in the order of the direct kernels.
//
// A block looks at kCells marks of a tile and makes the outputs of those cells one after the other. Mostly there are
// none, and the marks are all that is read.
#pragma once

#include "core/general.cuh"
#include "core/store.cuh"
#include "overlap_save/params.h"

namespace torch_conv::overlap_save {

// Up to four neighbouring outputs, from (y, x) of the image on.
template <typename T>
__device__ void write_directly(const Direct& p, const Tile& tile, int64_t y, int64_t x, int count) {
  using A = acc_t<T>;
  const Placement& s = p.place;
  const A* const taps = static_cast<const A*>(p.taps.data) + tile.n * p.taps.stride_n + tile.c * p.taps.stride_c;
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
    if (s.normalized) sum[q] = sum[q] / taps_inside<2>(p, Neighbours{}, taps, 0, y, x + q);
    if (s.border == Border::zero_output && !fits(p, y, x + q)) sum[q] = 0;
    store_as(p.out, at + q * p.out.stride_w, sum[q]);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) overlap_save_directly(const __grid_constant__ WriteArgs a) {
  const Direct& f = a.p.filter;
  const Cells& cells = a.cells;
  const Outputs outputs = Outputs::of(a.p);
  const int64_t unit = blockIdx.x;
  const int first = blockIdx.y * kCells, mine = first + threadIdx.x % 32;
  const Mark* const marks = reinterpret_cast<const Mark*>(a.p.marks) + unit * cells.count();
  unsigned marked = __ballot_sync(~0u, mine < cells.count() && marks[mine] == Mark::directly);
  if (marked == 0) return;
  const Tile tile = a.order.tile_of(unsigned(unit));
  const int64_t top = tile.row * outputs.h, left = tile.column * outputs.w;
  for (; marked; marked &= marked - 1) {
    const int cell = first + __ffs(marked) - 1, row = cell / cells.columns, column = cell % cells.columns;
    const Range rows = outputs_of({row, row + 1}, cells.log_h, f.place.stride_y, min(outputs.h, f.out.h - top));
    const Range columns =
        outputs_of({column, column + 1}, cells.log_w, f.place.stride_x, min(outputs.w, f.out.w - left));
    if (rows.size() <= 0 || columns.size() <= 0) continue;
    const int64_t fours = ceil_div(columns.size(), kPixels);
    for (int64_t i = threadIdx.x; i < rows.size() * fours; i += kThreads) {
      const int64_t y = rows.begin + i / fours, x = columns.begin + i % fours * kPixels;
      write_directly<T>(f, tile, top + y, left + x, int(min(int64_t(kPixels), columns.end - x)));
    }
  }
}

}  // namespace torch_conv::overlap_save
