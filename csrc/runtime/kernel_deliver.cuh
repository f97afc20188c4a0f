// Rows into other ranks' mailboxes, and a meeting: the kernel ends when every rank has delivered what it had.
//
//   every block        copies its words | counts itself
//   the last of them   tells all ranks that this one has come | waits until they have told it
#pragma once

#include "runtime/kernel_copy.cuh"
#include "runtime/meeting.h"
#include "runtime/signal.cuh"

namespace torch_conv::cuda {

static_assert(kMostRanks <= kCopyThreads);

template <typename Word>
__global__ void deliver_runs(const __grid_constant__ AllRuns all, const __grid_constant__ Meeting meeting) {
  copy_words<Word>(all.runs[blockIdx.y]);
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();  // the block's words come before its count, for other GPUs too
    is_last = atomicAdd(meeting.copied, 1u) == gridDim.x * gridDim.y - 1;
    if (is_last) __threadfence_system();  // what other blocks did comes before the word that this one publishes
  }
  __syncthreads();
  if (!is_last) return;
  if (threadIdx.x == 0) *meeting.copied = 0;
  const int rank = int(threadIdx.x);
  if (rank >= meeting.ranks) return;
  publish(meeting.told[rank], meeting.call);
  const int64_t since = nanoseconds();
  while (published(meeting.arrived + rank) < meeting.call)
    if (nanoseconds() - since > meeting.timeout_ns) give_up();
}

}  // namespace torch_conv::cuda
