// Device code that all kernels of the depth pass share.
#pragma once

#include "core/cuda/store.cuh"
#include "kernels/box/depth/params.h"
#include "kernels/box/shared/common.cuh"

namespace torch_conv::box {

// Voxels of a window inside the volume.
__device__ __forceinline__ int64_t voxels_inside(const DepthArgs& a, int z, int64_t row, int64_t at) {
  const int64_t pixel = row * a.w + at / a.interleaved;
  return int64_t(overlap(z - a.pad_z, a.kd, a.d)) * overlap(int(pixel / a.w) - a.pad_y, a.kh, a.plane_h) *
         overlap(int(pixel % a.w) - a.pad_x, a.kw, a.plane_w);
}

// The position of a thread's V neighbouring elements.
template <typename S, int V>
struct DepthPosition {
  unsigned chunk;
  bool stored;      // they are outputs
  int64_t row, at;  // their run, and the first one's place in it
  const S* from;    // the first one of plane 0
  int64_t to;       // element of its output

  __device__ __forceinline__ explicit DepthPosition(const DepthArgs& a) {
    const unsigned block = blockIdx.x / a.column_blocks, plane = block / a.chunks;
    const int64_t column = int64_t(blockIdx.x % a.column_blocks) * kDepthThreads + threadIdx.x;
    chunk = block % a.chunks, stored = column < a.columns;
    const int64_t groups = a.length / V, own = stored ? column : a.columns - 1;
    row = own / groups, at = own % groups * V;
    const int n = int(plane / a.channels), c = int(plane % a.channels);
    from = static_cast<const S*>(a.sums) + n * a.in_n + c * a.in_c + row * a.in_h + at * a.in_w;
    to = n * a.out.stride_n + c * a.out.stride_c + row * a.out.stride_h + at * a.out_w;
  }
};

// Rounds and stores V neighbours. kPassing: L2 evicts vectors of 8 or 16 bytes of outputs before it evicts inputs.
template <typename Out, bool kPassing = false, int V, typename Real>
__device__ __forceinline__ void store_depth(const DepthArgs& a, int64_t offset, const Real (&value)[V], bool stored) {
  if constexpr (std::is_same_v<Out, General>) {
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (stored) store_as(a.out, offset + v * a.out_w, value[v]);
  } else {
    Pack<V, Out> pack;
#pragma unroll
    for (int v = 0; v < V; ++v) pack.v[v] = from_acc<Out>(value[v]);
    Out* to = static_cast<Out*>(a.out.data) + offset;
    if constexpr (sizeof(pack) == 8 || sizeof(pack) == 16) {
      store_pack_if<V, Out, kPassing>(stored, to, pack);
    } else if (stored) {
      if constexpr (sizeof(pack) == 4) {
        *reinterpret_cast<Pack<V, Out>*>(to) = pack;
      } else {
#pragma unroll
        for (int v = 0; v < V; ++v) to[v] = pack.v[v];
      }
    }
  }
}

}  // namespace torch_conv::box
