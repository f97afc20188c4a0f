// How column warps hand sums over to row warps: barriers in shared memory.
#pragma once

#include "core/device.cuh"
#include "core/tma.cuh"

namespace torch_conv::box {

// For uses that are complete when so many warps have arrived. (tma::barrier_init, which compute capability 8 lacks,
// also fences bulk copies.)
__device__ __forceinline__ void barrier_init(uint64_t* barrier, int warps) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(warps * kWarpArrivals)
               : "memory");
}

// A warp's arrival, by all of its lanes.
__device__ __forceinline__ void arrive(uint64_t* barrier) { tma::warp_arrive(barrier); }

// Until the barrier's use number `use` is complete.
__device__ __forceinline__ void await(uint64_t* barrier, int use) {
#if __CUDA_ARCH__ >= 900
#define TORCH_CONV_WAIT "mbarrier.try_wait.parity.shared::cta.b64"
#else
#define TORCH_CONV_WAIT "mbarrier.test_wait.parity.shared::cta.b64"
#endif
  asm volatile("{\n.reg .pred done;\nwait:\n" TORCH_CONV_WAIT
               " done, [%0], %1;\n@!done bra wait;\n}" ::"r"(shared_address(barrier)),
               "r"(use & 1)
               : "memory");
#undef TORCH_CONV_WAIT
}

// Those of a ring of stages, which batches take in turn: batch c is use c / stages of its stage's barriers. Column
// warps arrive at `full` when the batch's sums stand there, row warps at `empty` when they have read them.
struct Barriers {
  uint64_t *full, *empty;  // of every stage

  // They stand at `first`, one behind the other.
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
