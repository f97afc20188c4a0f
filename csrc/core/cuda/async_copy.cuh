// Asynchronous copies of single threads from device to shared memory (cp.async).
#pragma once

#include "core/cuda/device.cuh"

namespace torch_conv {

// Copies kBytes (4, 8 or 16); both addresses are aligned to kBytes. Copies of 16 bytes bypass L1.
template <int kBytes>
__device__ __forceinline__ void async_copy(void* to, const void* from) {
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from), "n"(kBytes)
                 : "memory");
}

// The same, but reads only the first `bytes`, and writes zeros behind them.
template <int kBytes>
__device__ __forceinline__ void async_copy(void* to, const void* from, int bytes) {
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from), "n"(kBytes),
                 "r"(bytes)
                 : "memory");
}

// Closes the group of the thread's copies since the last group.
__device__ __forceinline__ void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for all but the last kPending groups of the thread. For other threads' copies the block needs a barrier.
template <int kPending>
__device__ __forceinline__ void async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Waits for all copies of the thread, grouped or not.
__device__ __forceinline__ void async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace torch_conv
