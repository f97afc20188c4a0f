// The instructions of barriers in shared memory, also of compute capability 8.
#pragma once

#include "core/cuda/device.cuh"
#include "core/cuda/tma.cuh"

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

}  // namespace torch_conv::box
