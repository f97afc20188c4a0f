// MARK: what becomes of the sums of each cell of a tile. A block takes a tile.
// Bytes: a note and a mark for each cell, which has at least 16 x 16 pixels.
#pragma once

#include "core/device.cuh"
#include "overlap_save/params.h"

namespace torch_conv::overlap_save {

__global__ void __launch_bounds__(kThreads) overlap_save_mark(const __grid_constant__ WriteArgs a) {
  __shared__ int of_warps[kThreads / 32];
  const WriteTiles& p = a.p;
  const Cells& cells = a.cells;
  const int64_t unit = blockIdx.x;
  const int32_t* const notes = p.notes + unit * cells.notes();
  int largest = 0;
  for (int i = threadIdx.x; i < cells.count(); i += kThreads) largest = max(largest, notes[i]);
  for (int far = 16; far; far /= 2) largest = max(largest, __shfl_xor_sync(~0u, largest, far));
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = largest;
  __syncthreads();
  for (int warp = 0; warp < kThreads / 32; ++warp) largest = max(largest, of_warps[warp]);

  const bool clamp = clamps(p, cells, notes, a.order.tile_of(unsigned(unit)));
  Mark* const marks = reinterpret_cast<Mark*>(p.marks) + unit * cells.count();
  for (int i = threadIdx.x; i < cells.count(); i += kThreads)
    marks[i] = mark_of(cells, notes, i / cells.columns, i % cells.columns, largest, clamp);
}

}  // namespace torch_conv::overlap_save
