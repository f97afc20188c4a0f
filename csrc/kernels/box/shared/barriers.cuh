// The barriers in shared memory by which column warps hand sums over to row warps.
#pragma once

#include "kernels/box/shared/mbarrier.cuh"

namespace torch_conv::box {

// The barriers of a ring of stages, which batches use in turn: batch c is use c / stages of its stage's barriers.
// Column warps arrive at `full` when the batch's sums are written, row warps at `empty` when they have read them.
struct Barriers {
  uint64_t *full, *empty;  // of every stage

  // They are contiguous from `first` on.
  static __device__ __forceinline__ Barriers at(unsigned char* first, int stages) {
    uint64_t* const full = reinterpret_cast<uint64_t*>(first);
    return {full, full + stages};
  }
  // One thread, before a __syncthreads().
  __device__ __forceinline__ void init(int stages, int column_warps, int row_warps) const {
    for (int i = 0; i < stages; ++i) barrier_init(&full[i], column_warps), barrier_init(&empty[i], row_warps);
  }
};

}  // namespace torch_conv::box
