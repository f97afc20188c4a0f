// MARK: marks the cells of a tile, one a thread, by the step from their windows' sums to outputs. Every block searches
// the tile's notes for the largest and, where no pixel is negative, the taps for a negative one: at most 16,384 notes
// and the window's taps, from L2. Bytes: a note and a mark for each cell, which has at least 16 x 16 pixels.
#pragma once

#include "core/cuda/device.cuh"
#include "kernels/overlap_save/params.h"

namespace torch_conv::overlap_save {

template <typename T>
__global__ void __launch_bounds__(kMarkThreads) overlap_save_mark(const __grid_constant__ WriteArgs a) {
  __shared__ int largest_of_warp[kMarkThreads / 32];
  const WriteTiles& p = a.p;
  const Cells& cells = a.cells;
  const int64_t unit = blockIdx.x;
  const int32_t* const notes = p.notes + unit * cells.notes();
  int largest = 0;
#pragma unroll 8
  for (int i = threadIdx.x; i < cells.count(); i += kMarkThreads) largest = max(largest, notes[i]);
  for (int far = 16; far; far /= 2) largest = max(largest, __shfl_xor_sync(~0u, largest, far));
  if (threadIdx.x % 32 == 0) largest_of_warp[threadIdx.x / 32] = largest;
  __syncthreads();
  for (int warp = 0; warp < kMarkThreads / 32; ++warp) largest = max(largest, largest_of_warp[warp]);

  bool negative = notes[cells.count()] != 0;
  if (!negative) {
    const acc_t<T>* const taps = taps_of<acc_t<T>>(p.filter, a.order.tile_of(unsigned(unit)));
#pragma unroll 8
    for (int64_t i = threadIdx.x; i < p.filter.kh * p.filter.kw; i += kMarkThreads) negative |= !(taps[i] >= 0);
  }
  const bool clamp = !__syncthreads_or(negative);

  const int cell = blockIdx.y * kMarkThreads + threadIdx.x;
  if (cell >= cells.count()) return;
  Mark* const marks = reinterpret_cast<Mark*>(p.marks) + unit * cells.count();
  marks[cell] = mark_of(cells, notes, cell / cells.columns, cell % cells.columns, largest, clamp);
}

}  // namespace torch_conv::overlap_save
