// Writes rows into other ranks' symmetric memory, then a handshake: the kernel ends when every rank has written its
// rows.
//
//     every block      copies its words | adds 1 to the counter of blocks
//     the last block   sets this rank's flag in all ranks' memory | waits for all ranks' flags in its own memory
#pragma once

#include "runtime/kernel_copy.cuh"
#include "runtime/params.h"
#include "runtime/signal.cuh"

namespace torch_conv::cuda {

static_assert(kMostRanks <= kCopyThreads);

template <typename Word>
__global__ void deliver_runs(const __grid_constant__ WordCopies all, const __grid_constant__ Handshake handshake) {
  copy_words<Word>(all.copies[blockIdx.y]);
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();  // the block's words come before its count, for other GPUs too
    is_last = atomicAdd(handshake.copied, 1u) == gridDim.x * gridDim.y - 1;
    if (is_last) __threadfence_system();  // other blocks' words come before the flag that this block publishes
  }
  __syncthreads();
  if (!is_last) return;
  if (threadIdx.x == 0) *handshake.copied = 0;
  const int rank = int(threadIdx.x);
  if (rank >= handshake.ranks) return;
  publish(handshake.flags[rank], handshake.call);
  const int64_t since = nanoseconds();
  while (published(handshake.own_flags + rank) < handshake.call)
    if (nanoseconds() - since > handshake.timeout_ns) give_up();
}

}  // namespace torch_conv::cuda
