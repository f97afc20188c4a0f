// The depth pass of a 3-D box of floats, in the kernel family's fixed order of additions (kernels/box/order.h).
//
//      z   t0      - - - - -   lead: 8 planes       A thread owns 16 bytes of neighbouring sums of a plane and walks
//                  |       |   rest, blocks of 8    down a chunk of z, 8 planes of outputs (z / 8 of the whole volume)
//          b0      - - - - -   trail: 8 planes      at a time. Windows of up to 16 planes stand in registers. Of deeper
//          b0 + 7  - - - - -                        ones the planes of lead and trail are on their way together; rests
//                                                   and blocks stand in a ring of the thread's own in shared memory,
//                                                   where later groups find what were this one's trailing planes.
//
// Reads a plane an output, deeper windows two, of which the leading ones often come from L2, and writes one; about
// 5 + (kd - 9) / 64 additions an output.
#pragma once

#include "kernels/box/depth/kernel.cuh"
#include "kernels/box/order.h"

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

// A plane outside the volume: a call, for it stands at 40 places.
__device__ __noinline__ int outer_plane(int z, int depth, Border border) { return map_index(z, depth, border); }

template <typename S>
__device__ __forceinline__ S depth_result(const DepthArgs& a, S sum, int z, int64_t row, int64_t at) {
  if (a.finish == Finish::mean) {
    const int64_t inside = voxels_inside(a, z, row, at);
    return inside > 0 ? sum / S(inside) : S(0);
  }
  const bool fits = a.finish != Finish::interior || (z >= a.pad_z && z - a.pad_z + a.kd <= a.d);
  if (!fits) return S(0);
  return a.mean ? mean_of_sum(sum, Reciprocal<S>{S(a.reciprocal.hi), S(a.reciprocal.lo)}) : sum;
}

// The outputs of a thread, and the planes that it reads.
template <typename S, int V, typename Out>
struct DepthColumn {
  using Planes = PlaneValues<S, V>;
  const DepthArgs& a;
  DepthPosition<S, V> place;
  int begin, end;

  __device__ explicit DepthColumn(const DepthArgs& a) : a(a), place(a) {
    begin = int(place.chunk) * a.chunk - a.phase, end = min(begin + a.chunk, int(a.out.d));
  }
  __device__ __forceinline__ Planes read(int z) const {
    const int m = unsigned(z) < unsigned(a.d) ? z : outer_plane(z, a.d, a.border);
    const S* const from = place.from + max(m, 0) * a.in_d;
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
    for (int v = 0; v < V; ++v) value[v] = depth_result(a, sum.v[v], z, place.row, place.at + v);
    store_depth<Out, true>(a, place.to + z * a.out.stride_d, value, place.stored && z >= 0 && z < end);
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
      oldest = oldest + 1 == count ? 0 : oldest + 1;
    }
    if constexpr (kRest > 0) {
      Planes rest = plane[kGroup - kRest];
#pragma unroll
      for (int i = kGroup - kRest + 1; i < kGroup; ++i) rest = rest + plane[i];
      rests[oldest_rest * kDepthThreads] = rest;
      oldest_rest = oldest_rest == count ? 0 : oldest_rest + 1;
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

// Every output by itself: any window.
template <typename S, int V>
__global__ void __launch_bounds__(kDepthThreads) box_depth_any(const __grid_constant__ DepthArgs a) {
  const DepthColumn<S, V, void> column(a);
#pragma unroll 1
  for (int z = max(column.begin, 0); z < column.end; ++z) {
    const int place = (z - column.begin) % kGroup, top = z - place - a.pad_z;
    column.finish(z, column_sum<PlaneValues<S, V>>([&](int64_t i) { return column.read(top + int(i)); }, a.kd, place));
  }
}

// kKept: kd up to 16. Of deeper windows 0, and kRest the planes of a rest.
template <typename S, int V, typename Out, int kKept, int kRest>
__global__ void __launch_bounds__(kDepthThreads, kDepthGroupBlocks)
    box_depth_groups(const __grid_constant__ DepthArgs a) {
  using Planes = PlaneValues<S, V>;
  const DepthColumn<S, V, Out> column(a);
  const int begin = column.begin, end = column.end;
  const auto read = [&](int z) { return column.read(z); };
  const auto finish = [&](int z, const Planes& sum) { column.finish(z, sum); };

  if constexpr (kKept > 0) {
    constexpr int kBefore = kKept - 1;
    Planes kept[kBefore > 0 ? kBefore : 1];
#pragma unroll
    for (int i = 0; i < kBefore; ++i) kept[i] = read(begin - a.pad_z + i);
#pragma unroll 1
    for (int z = begin; z < end; z += kGroup) {
      Planes entering[kGroup];
#pragma unroll
      for (int j = 0; j < kGroup; ++j) entering[j] = read(z - a.pad_z + kBefore + j);
      const auto plane = [&](int i) -> const Planes& {
        return i < kBefore ? kept[i < kBefore ? i : 0] : entering[i < kBefore ? 0 : i - kBefore];
      };
      if constexpr (one_chain(kKept)) {
#pragma unroll
        for (int j = 0; j < kGroup; ++j) {
          Planes sum = plane(j);
#pragma unroll
          for (int i = 1; i < kKept; ++i) sum = sum + plane(j + i);
          finish(z + j, sum);
        }
      } else {
        Planes lead[kGroup];
        lead[kGroup - 1] = plane(kGroup - 1);
#pragma unroll
        for (int j = kGroup - 2; j >= 0; --j) lead[j] = plane(j) + lead[j + 1];
        if constexpr (kBefore > kGroup) {
          Planes middle = plane(kGroup);
#pragma unroll
          for (int i = kGroup + 1; i < kBefore; ++i) middle = middle + plane(i);
#pragma unroll
          for (int j = 0; j < kGroup; ++j) lead[j] = lead[j] + middle;
        }
        column.finish_group(z, lead, entering);
      }
      Planes next[kBefore > 0 ? kBefore : 1];
#pragma unroll
      for (int i = 0; i < kBefore; ++i) next[i] = plane(i + kGroup);
#pragma unroll
      for (int i = 0; i < kBefore; ++i) kept[i] = next[i];
    }
  } else {
    extern __shared__ __align__(16) unsigned char shared[];
    DepthMiddle<Planes, kRest> middle(reinterpret_cast<Planes*>(shared), a.kd);
    const int start = begin - a.pad_z + a.kd - 1;
#pragma unroll 1
    for (int c = -middle.count - 1; c < 0; ++c) {
      Planes planes[kGroup];
#pragma unroll
      for (int i = 0; i < kGroup; ++i) planes[i] = read(start + kGroup * c + i);
      middle.keep(planes);
    }
#pragma unroll 1
    for (int z = begin; z < end; z += kGroup) {
      const int top = z - a.pad_z, bottom = top + a.kd - 1;
      Planes lead[kGroup], trail[kGroup];
#pragma unroll
      for (int j = 0; j < kGroup; ++j) lead[j] = read(top + j), trail[j] = read(bottom + j);
#pragma unroll
      for (int j = kGroup - 2; j >= 0; --j) lead[j] = lead[j] + lead[j + 1];
      middle.add_to(lead);
      column.finish_group(z, lead, trail);
      middle.keep(trail);
    }
  }
}

}  // namespace torch_conv::box
