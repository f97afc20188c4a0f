// Bulk tensor copies: barriers in shared memory, loads and stores of boxes. For compute capability 9.0 on: elsewhere
// only warp_arrive is declared, and kernels omit the calls.
#pragma once

#include "core/cuda/device.cuh"
#include "core/tma.h"

namespace torch_conv::tma {

// One lane arrives for its warp. The arrival is predicated, because at a branch the compiler assumes that lanes
// diverge.
__device__ __forceinline__ void warp_arrive(uint64_t* barrier) {
  __syncwarp();
  asm volatile(
      "{ .reg .pred p; setp.lt.u32 p, %0, %1; @p mbarrier.arrive.shared::cta.b64 _, [%2]; }" ::"r"(threadIdx.x % 32),
      "n"(kWarpArrivals), "r"(shared_address(barrier))
      : "memory");
}

}  // namespace torch_conv::tma

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

namespace torch_conv::tma {

// One thread initialises `barrier` for phases of `count` arrivals, each of which may expect bytes. Other threads may
// use it after a __syncthreads().
__device__ __forceinline__ void barrier_init(uint64_t* barrier, int count = 1) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// One lane arrives for its warp and expects `bytes` of copies.
__device__ __forceinline__ void warp_expect(uint64_t* barrier, int bytes) {
  const int lane = threadIdx.x % 32;
  if (lane == 0)
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
  else if (lane < kWarpArrivals) barrier_arrive(barrier);
}

// Orders a thread's own writes to shared memory before its later bulk copies from or to the same memory.
__device__ __forceinline__ void fence_before_copy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void barrier_expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

// Every thread: arrives at the barrier when its copies so far (core/cuda/async_copy.cuh) are complete. The thread does
// not wait.
__device__ __forceinline__ void barrier_arrive_copied(uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ void barrier_wait(uint64_t* barrier, int phase) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "wait:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra wait;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(phase)
      : "memory");
}

// One thread loads the box with its first element at (x, y) of plane (c, n) into `shared` (128-byte aligned).
__device__ __forceinline__ void load_box(void* shared, const TensorMap* map, uint64_t* barrier, int x, int y, int c,
                                         int n) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(c), "r"(n)
      : "memory");
}

// Copies a box of plane z of volume (c, n).
__device__ __forceinline__ void load_box(void* shared, const TensorMap* map, uint64_t* barrier, int x, int y, int z,
                                         int c, int n) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, "
      "%7}], [%2];" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(c), "r"(n)
      : "memory");
}

// One thread stores a box of shared memory to the image, at coordinates in the order of the map's axes. A negative
// coordinate is an illegal instruction. Elements beyond the far edges are omitted. Stores form groups, which
// store_commit() closes.
__device__ __forceinline__ void store_box(const TensorMap* map, const void* shared, int x, int y, int c, int n) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
               "r"(shared_address(shared)), "r"(x), "r"(y), "r"(c), "r"(n)
               : "memory");
}

__device__ __forceinline__ void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all groups of the thread but the last kBut have read shared memory; store_wait(): until all are written.
template <int kBut = 0>
__device__ __forceinline__ void store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kBut) : "memory");
}
__device__ __forceinline__ void store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// One thread copies contiguous vectors of 16 bytes. The load counts at `barrier`, the store belongs to a group.
__device__ __forceinline__ void bulk_load(void* to, const void* from, int bytes, uint64_t* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

__device__ __forceinline__ void bulk_store(void* to, const void* from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)),
               "r"(bytes)
               : "memory");
}

}  // namespace torch_conv::tma

#endif
