// PLANES: the warps that move planes between device and shared memory by bulk copies.
#pragma once

#include "core/border.h"
#include "core/cuda/tma.cuh"
#include "kernels/direct3d/planes/params.h"

namespace torch_conv::direct3d {

namespace planes {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

__device__ __forceinline__ bool passed(uint64_t* barrier, int phase) {
  unsigned done;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(done)
               : "r"(shared_address(barrier)), "r"(phase)
               : "memory");
  return done;
}

// All lanes of a warp wait. The votes tell the compiler that the lanes stay together.
__device__ __forceinline__ void wait(uint64_t* barrier, int phase) {
  while (!__all_sync(~0u, passed(barrier, phase))) {
  }
}
__device__ __forceinline__ void wait_both(uint64_t* a, int phase_a, uint64_t* b, int phase_b) {
  while (!__all_sync(~0u, int(passed(a, phase_a)) & int(passed(b, phase_b)))) {
  }
}

__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

template <int N>
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

#endif

// The steps of a block: the input planes under every run of output planes of one group of channels.
struct PlaneRun {
  int begin, end;    // output planes, counted over all groups
  int group, first;  // first output plane of the run
  int next;          // first output plane of the next run
  int z, z_end;      // input planes of the run

  __device__ __forceinline__ void start(int depth_out, int depth, int pad, bool skip_zeros) {
    group = begin / depth_out;
    first = begin - group * depth_out;
    const int planes = min(depth_out - first, end - begin);
    next = begin + planes;
    z = first - pad;
    z_end = first + planes + 2 - pad;
    if (skip_zeros && z < 0) z = 0;
  }
  __device__ __forceinline__ void step(int depth_out, int depth, int pad, bool skip_zeros) {
    if (++z < z_end) return;
    begin = next;
    if (begin < end) start(depth_out, depth, pad, skip_zeros);
  }
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

// Each moving warp moves the planes of every fourth channel, in and out.
template <typename T, bool kInPlace>
__device__ __forceinline__ void move_planes(const PlanesArgs& a, PlaneRun done, bool skip_zeros, unsigned char* stages,
                                            uint64_t* full, uint64_t* empty, int mover) {
  const int lane = threadIdx.x % 32;
  const int64_t plane = int64_t(a.h) * a.w;
  done.start(a.d_out, a.d, a.pad_z, skip_zeros);
  PlaneRun load = done;

  auto load_next = [&](int stage) {
    if (load.begin >= load.end) return;
    unsigned char* to = stages + stage * a.stage_bytes + kPlanesCell;
    const int source = map_index(load.z, a.d, a.border);
    const int first = load.group * a.group, count = min(a.group, a.volumes - first);
    if (skip_zeros && source < 0) {
      tma::warp_arrive(&full[stage]);
    } else if (source < 0) {
      const T value = from_acc<T>(a.value);
      T same[16 / sizeof(T)];
#pragma unroll
      for (int i = 0; i < int(16 / sizeof(T)); ++i) same[i] = value;
      uint4 word;
      memcpy(&word, same, 16);
      for (int i = mover; i < count; i += kPlanesMovers)
        for (int e = lane; e < a.slot_bytes / 16; e += 32) reinterpret_cast<uint4*>(to + i * a.slot_bytes)[e] = word;
      tma::fence_before_copy();
      tma::warp_arrive(&full[stage]);
    } else {
      // Bulk copies load whole vectors of 16 bytes: a plane, and elements before and behind it.
      const int shift = kInPlace ? 0 : source % 16 * (a.plane_bytes % 16) % 16;
      const int bytes = kInPlace ? a.plane_bytes : (shift + a.plane_bytes + 15) / 16 * 16;
      tma::warp_expect(&full[stage], max(0, (count - mover + kPlanesMovers - 1) / kPlanesMovers) * bytes);
      for (int i = mover + lane * kPlanesMovers; i < count; i += 32 * kPlanesMovers) {
        const T* from = static_cast<const T*>(a.in) + (first + i) / a.multiplier * a.volume_in + source * plane;
        tma::bulk_load(to + i * a.slot_bytes, from - shift / int(sizeof(T)), bytes, &full[stage]);
      }
    }
    __syncwarp();
    load.step(a.d_out, a.d, a.pad_z, skip_zeros);
  };

  // The last two stages stay free: they take the outputs of the first two steps.
  for (int i = 0; i < a.stages - 2; ++i) load_next(i);
  int stage = 0, phase = 0;
  while (done.begin < done.end) {
    wait(&empty[stage], phase);
    const int earlier = stage < 2 ? stage - 2 + a.stages : stage - 2;
    if constexpr (kInPlace) {
      const int z = done.z + a.pad_z - 2, first = done.group * a.group, count = min(a.group, a.volumes - first);
      const unsigned char* from = stages + earlier * a.stage_bytes + kPlanesCell;
      tma::fence_before_copy();  // for the computing warps' writes: they arrived at `empty`
      if (z >= done.first)
        for (int i = mover + lane * kPlanesMovers; i < count; i += 32 * kPlanesMovers)
          tma::bulk_store(static_cast<T*>(a.out) + (first + i) * a.volume_out + z * plane, from + i * a.slot_bytes,
                          a.plane_bytes);
      bulk_commit();
      bulk_wait_read<0>();
      __syncwarp();
    }
    load_next(earlier);
    done.step(a.d_out, a.d, a.pad_z, skip_zeros);
    if (++stage == a.stages) stage = 0, phase ^= 1;
  }
}

#endif

}  // namespace planes

}  // namespace torch_conv::direct3d
