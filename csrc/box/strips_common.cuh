// What the column warps and the row warps of box_strips share.
#pragma once

#include "box/params.h"
#include "core/async_copy.cuh"
#include "core/device.cuh"

namespace torch_conv::box {

struct alignas(16) Quad {
  float x, y, z, w;
  __device__ __forceinline__ Quad operator+(const Quad& b) const { return {x + b.x, y + b.y, z + b.z, w + b.w}; }
};

__device__ __forceinline__ void barrier_init(uint64_t* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

// One arrival for the warp, predicated: a branch would tell the compiler that lanes part.
__device__ __forceinline__ void arrive(uint64_t* barrier) {
  __syncwarp();
  asm volatile(
      "{ .reg .pred p; setp.eq.u32 p, %0, 0; @p mbarrier.arrive.shared::cta.b64 _, [%1]; }" ::"r"(threadIdx.x % 32),
      "r"(shared_address(barrier))
      : "memory");
}

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

// Number of a batch's use of the barriers of its stage.
template <int kStages>
__device__ __forceinline__ int use_of(int batch) {
  return batch / kStages;
}

struct Pipeline {
  uint64_t *full, *empty;
};

// L2 keeps what enters until it leaves, and nothing else.
struct Policies {
  uint64_t keep, pass;
};
template <bool kPolicies>
__device__ __forceinline__ Policies policies() {
  Policies p{};
  if constexpr (kPolicies) {
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(p.keep));
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p.pass));
  }
  return p;
}

// A block's outputs: columns [x, x + valid) of rows [y, y_end), in batches of a group of 8 rows.
struct Strip {
  int x, valid, y, y_end, batches;
  int64_t in, out;  // elements from the images' starts to those of the plane
  // Columns outside repeat columns of this strip: nobody reads them again, row warps copy the sums.
  bool mirrors;

  // The strip's first column and the one behind its last, of the extended image.
  __device__ int column_begin(const StripArgs& a) const { return x - a.pad_x - a.shift; }
  __device__ int column_end(const StripArgs& a) const { return x + valid - a.pad_x + a.kw - 1; }

  __device__ explicit Strip(const StripArgs& a) {
    const int tile = int(blockIdx.x) % a.tiles, rest = int(blockIdx.x) / a.tiles;
    const int segment = rest % a.segments, plane = rest / a.segments;
    x = tile * a.tile_w, valid = min(a.tile_w, a.out_w - x);
    y = segment * a.tile_h - a.phase, y_end = min(a.out_h, y + a.tile_h);
    batches = (y_end - y + kGroup - 1) / kGroup;
    const int n = plane / a.channels, c = plane % a.channels;
    in = n * a.in_stride_n + c * a.in_stride_c, out = n * a.out_stride_n + c * a.out_stride_c;
    // Mirrors lie no further from the edge of the image than what they repeat, give or take one.
    const int begin = column_begin(a), end = column_end(a);
    const bool mirror = a.border == Border::replicate || a.border == Border::reflect || a.border == Border::symmetric;
    mirrors = mirror && (begin < 0 || end > a.in_w);
    if (begin < 0) mirrors = mirrors && min(end, a.in_w) > -begin;
    if (end > a.in_w) mirrors = mirrors && a.in_w - (end - a.in_w) > max(begin, 0);
  }
};

// Batches of entering rows before the first one that ends windows.
template <Above kAbove>
__device__ __forceinline__ int start_batches(int blocks) {
  return kAbove == Above::chain ? 1 : kAbove == Above::kept ? 2 : blocks + 1;
}

// Floats from a strip's column to where it stands in a row of V.
__device__ __forceinline__ int in_row(int column) { return column / 32 * kChunkPitch + column % 32; }

}  // namespace torch_conv::box
