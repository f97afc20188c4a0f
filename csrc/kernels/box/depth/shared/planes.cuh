// A thread's planes of floats, and their sums in the order of kernels/box/order.h.
#pragma once

#include "kernels/box/depth/shared/common.cuh"

namespace torch_conv::box {

// Neighbouring sums of a plane.
template <typename S, int V>
struct PlaneValues {
  S v[V];
  __device__ __forceinline__ PlaneValues operator+(const PlaneValues& other) const {
    PlaneValues sum;
#pragma unroll
    for (int i = 0; i < V; ++i) sum.v[i] = v[i] + other.v[i];
    return sum;
  }
};

// A plane outside the volume. Not inlined, because it has 40 call sites.
__device__ __noinline__ int outer_plane(int z, int depth, Border border) { return map_index(z, depth, border); }

template <typename S>
__device__ __forceinline__ S depth_result(const DepthArgs& a, S sum, int z, int64_t row, int64_t at) {
  if (a.finish == Finish::mean_inside) {
    const int64_t inside = voxels_inside(a, z, row, at);
    return inside > 0 ? sum / S(inside) : S(0);
  }
  const bool fits = a.finish != Finish::interior || (z >= a.pad_z && z - a.pad_z + a.kd <= a.d);
  if (!fits) return S(0);
  return a.divides ? mean_of_sum(sum, Reciprocal<S>{S(a.reciprocal.hi), S(a.reciprocal.lo)}) : sum;
}

// The outputs of a thread, and the planes that it reads.
template <typename S, int V, typename Out>
struct DepthColumn {
  using Planes = PlaneValues<S, V>;
  const DepthArgs& a;
  DepthPosition<S, V> position;
  int begin, end;

  __device__ explicit DepthColumn(const DepthArgs& a) : a(a), position(a) {
    begin = int(position.chunk) * a.chunk - a.phase, end = min(begin + a.chunk, int(a.out.d));
  }
  __device__ __forceinline__ Planes read(int z) const {
    const int m = unsigned(z) < unsigned(a.d) ? z : outer_plane(z, a.d, a.border);
    const S* const from = position.from + max(m, 0) * a.in_d;
    Planes planes;
    if constexpr (V == 1) {
      planes.v[0] = *from;
    } else {
      const Pack<V, S> pack = load_pack<V>(from);
#pragma unroll
      for (int v = 0; v < V; ++v) planes.v[v] = pack.v[v];
    }
#pragma unroll
    for (int v = 0; v < V; ++v) planes.v[v] = m < 0 ? S(a.outside) : planes.v[v];
    return planes;
  }
  __device__ __forceinline__ void finish(int z, const Planes& sum) const {
    S value[V];
#pragma unroll
    for (int v = 0; v < V; ++v) value[v] = depth_result(a, sum.v[v], z, position.row, position.at + v);
    store_depth<Out, true>(a, position.to + z * a.out.stride_d, value, position.stored && z >= 0 && z < end);
  }
  // Outputs z .. z + 7 of the sums of lead and middle, and of the trailing planes.
  __device__ __forceinline__ void finish_group(int z, const Planes (&lead)[kGroup],
                                               const Planes (&trail)[kGroup]) const {
    Planes last = trail[0];
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      if (j > 0) last = last + trail[j];
      finish(z + j, lead[j] + last);
    }
  }
};

// The rests and blocks of a thread's window, between its first 8 planes and its last: a ring of each in shared memory.
template <typename Planes, int kRest>
struct DepthMiddle {
  Planes *blocks, *rests;
  int count, oldest = 0, oldest_rest = 0;

  __device__ DepthMiddle(Planes* shared, int kd)
      : blocks(shared + threadIdx.x), rests(blocks + blocks_of(kd) * kDepthThreads), count(int(blocks_of(kd))) {}
  // A group's 8 trailing planes lie between lead and trail in the windows of later groups: as a block of 8, or, of the
  // last kRest of them, as a rest.
  __device__ __forceinline__ void keep(const Planes (&plane)[kGroup]) {
    if (count > 0) {
      blocks[oldest * kDepthThreads] =
          block_sum<Planes>(plane[0], plane[1], plane[2], plane[3], plane[4], plane[5], plane[6], plane[7]);
      oldest = next_slot(oldest, count);
    }
    if constexpr (kRest > 0) {
      Planes rest = plane[kGroup - kRest];
#pragma unroll
      for (int i = kGroup - kRest + 1; i < kGroup; ++i) rest = rest + plane[i];
      rests[oldest_rest * kDepthThreads] = rest;
      oldest_rest = next_slot(oldest_rest, count + 1);
    }
  }
  __device__ __forceinline__ void add_to(Planes (&lead)[kGroup]) const {
    Planes middle{};
    if constexpr (kRest > 0) middle = rests[oldest_rest * kDepthThreads];
#pragma unroll 1
    for (int b = 0; b < count; ++b) {
      const int slot = oldest + b < count ? oldest + b : oldest + b - count;
      const Planes block = blocks[slot * kDepthThreads];
      middle = kRest > 0 || b > 0 ? middle + block : block;
    }
#pragma unroll
    for (int j = 0; j < kGroup; ++j) lead[j] = lead[j] + middle;
  }
};

}  // namespace torch_conv::box
