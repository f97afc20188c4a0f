// Both passes of any separable filter with the row results in scratch memory, for windows whose halo would fill a tile.
//
// scratch, per (sample, channel block): in.h + 1 rows of out.w pixels x channels, in the accumulation dtype. The last
// row serves every row outside the image: the row pass over a row of the border's value, or, for a normalized
// skip, each column's sum of the |taps| inside.
#pragma once

#include "kernels/separable2d/shared/any_layout.cuh"

namespace torch_conv::separable2d {

template <typename T>
__global__ void __launch_bounds__(32 * kWarps, kBlocks)
    separable_rows(const __grid_constant__ GeneralParams p, acc_t<T>* scratch) {
  using A = acc_t<T>;
  extern __shared__ __align__(128) unsigned char shared[];
  const GeneralTile& tile = p.tile;
  A* staged = reinterpret_cast<A*>(shared);
  A* results = staged + tile.stage_elements();
  const Position at = block_position(p, kRowBlock);
  const int rows = int(min(int64_t(kRowBlock), p.in.h + 1 - at.y));

  row_pass<T>(p, at, staged, results, rows, [&](int r) { return at.y + r < p.in.h ? at.y + r : int64_t(-1); });
  __syncthreads();

  const int column = threadIdx.x % kColumns, part = threadIdx.x / kColumns;
  const int64_t width = p.out.w * tile.channels, x = at.x * tile.channels + column;
  if (column >= tile.columns() || x >= width) return;
  A* to = scratch + (at.group * (p.in.h + 1) + at.y) * width + x;
  for (int r = part; r < rows; r += 32 * kWarps / kColumns) {
    A result = results[r * tile.columns_pitch() + column];
    if (p.place.normalized && at.y + r == p.in.h)
      result = inside_weight(p.taps.of<A>(p.taps.x, at.n, at.channel), p.kw, Axis{p.in.w, 0, p.place.dilation_x},
                             (at.x + column / tile.channels) * p.place.stride_x - p.place.pad_x);
    to[r * width] = result;
  }
}

// The position of a row outside the image in the scratch. Not inlined: the unrolled bodies of the loops would each hold
// its divisions (NVRTC 13.0 compiles the kernel in 1.6 s so, else in 8).
__device__ __noinline__ int64_t row_outside(int64_t row, int64_t h, Border border) {
  const int64_t m = map_index(row, h, border);
  return m < 0 ? h : m;
}

template <typename A>
__global__ void __launch_bounds__(32 * kWarps)
    separable_columns(const __grid_constant__ GeneralParams p, const A* scratch) {
  const GeneralTile& tile = p.tile;
  const Position at = block_position(p, kTwoPassRows);
  const int column = threadIdx.x % kColumns;
  const int64_t y = at.y + threadIdx.x / kColumns * kColumnRows;
  const int64_t width = p.out.w * tile.channels, x = at.x + column / tile.channels;
  const int64_t channel = at.channel + column % tile.channels;
  if (column >= tile.columns() || x >= p.out.w || channel >= p.out.c || y >= p.out.h) return;

  const Axis axis{p.in.h, p.place.stride_y, p.place.dilation_y};
  const int64_t first_y = y * axis.stride - p.place.pad_y;
  const A* taps = p.taps.of<A>(p.taps.y, at.n, at.channel);
  const A* from = scratch + at.group * (p.in.h + 1) * width + at.x * tile.channels + column;
  auto element = [&](int v, int i) {
    int64_t row = first_y + v * axis.stride + i * axis.dilation;
    if (row < 0 || row >= p.in.h) row = row_outside(row, p.in.h, p.place.border);
    return from[row * width];
  };
  A sums[kColumnRows] = {};
  if (p.place.border == Border::skip && !axis.covers(first_y, kColumnRows, p.kh))
    accumulate_inside(sums, taps, p.kh, axis, first_y, element);
  else if (p.reuse_y) accumulate(sums, taps, p.kh, true, element);
  else accumulate(sums, taps, p.kh, false, element);
  finish(p, sums, at.n, channel, y, x, kColumnRows, p.place.normalized ? from[p.in.h * width] : A(1));
}

}  // namespace torch_conv::separable2d
