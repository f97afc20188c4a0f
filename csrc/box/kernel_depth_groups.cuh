// The depth pass of a 3-D box of floats, in the room's fixed order of additions (box/order.h).
//
//      z   t0      - - - - -   lead: 8 planes       A thread owns 16 bytes of neighbouring sums of a plane and marches
//                  |       |   rest, blocks of 8    down a chunk of z, 8 planes of outputs (z / 8 of the whole volume)
//          b0      - - - - -   trail: 8 planes      at a time: the planes of lead and trail are on their way together,
//          b0 + 7  - - - - -                        blocks stand in a ring of the thread's own in shared memory, where
//                                                   the next group finds what were this one's trailing planes.
//
// Reads 2 planes and (kd - 9) % 8 / 8 of one an output, of which the leading ones often come from L2, writes 1; about
// 5 + (kd - 9) / 64 additions an output.
#pragma once

#include "box/kernel_depth.cuh"
#include "box/order.h"

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

template <typename S, int V, typename Out>
__global__ void __launch_bounds__(kDepthThreads, kDepthGroupBlocks)
    box_depth_groups(const __grid_constant__ DepthArgs a) {
  using Planes = PlaneValues<S, V>;
  extern __shared__ __align__(16) unsigned char shared[];
  Planes* const ring = reinterpret_cast<Planes*>(shared) + threadIdx.x;
  const DepthPlace<S, V> place(a);
  const S* const from = place.from;
  const int begin = int(place.chunk) * a.chunk - a.phase, end = min(begin + a.chunk, int(a.out.d));
  const int count = one_chain(a.kd) ? 0 : int(blocks_of(a.kd)), rest = one_chain(a.kd) ? 0 : int(rest_of(a.kd));

  const auto read = [&](int z) {
    const int m = unsigned(z) < unsigned(a.d) ? z : outer_plane(z, a.d, a.border);
    Planes planes;
    if constexpr (V == 1) {
      planes.v[0] = from[max(m, 0) * a.in_d];
    } else {
      const Pack<V, S> pack = load_pack<V>(from + max(m, 0) * a.in_d);
#pragma unroll
      for (int v = 0; v < V; ++v) planes.v[v] = pack.v[v];
    }
#pragma unroll
    for (int v = 0; v < V; ++v) planes.v[v] = m < 0 ? S(a.outside) : planes.v[v];
    return planes;
  };
  const auto block_at = [&](int z) {
    return block_sum<Planes>(read(z), read(z + 1), read(z + 2), read(z + 3), read(z + 4), read(z + 5), read(z + 6),
                             read(z + 7));
  };
  const auto finish = [&](int z, const Planes& sum) {
    S value[V];
#pragma unroll
    for (int v = 0; v < V; ++v) value[v] = depth_result(a, sum.v[v], z, place.row, place.at + v);
    store_depth<Out>(a, place.to + z * a.out.stride_d, value, place.stored && z >= 0 && z < end);
  };

  if (one_chain(a.kd)) {
#pragma unroll 1
    for (int z = begin; z < end; z += kGroup) {
      Planes planes[2 * kGroup - 1];
#pragma unroll
      for (int i = 0; i < 2 * kGroup - 1; ++i)
        if (i < a.kd + kGroup - 1) planes[i] = read(z - a.pad_z + i);
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        Planes sum = planes[j];
#pragma unroll
        for (int i = 1; i < kGroup; ++i)
          if (i < a.kd) sum = sum + planes[j + i];
        finish(z + j, sum);
      }
    }
    return;
  }

  if (a.ring) {
    const int first = begin - a.pad_z + kGroup + rest;  // the oldest block of the first group
#pragma unroll 1
    for (int b = 0; b < count; ++b) ring[b * kDepthThreads] = block_at(first + b * kGroup);
  }
  int oldest = 0;
#pragma unroll 1
  for (int z = begin; z < end; z += kGroup) {
    const int top = z - a.pad_z, bottom = top + a.kd - 1;
    Planes lead[kGroup], trail[kGroup];
#pragma unroll
    for (int j = 0; j < kGroup; ++j) lead[j] = read(top + j), trail[j] = read(bottom + j);
#pragma unroll
    for (int j = kGroup - 2; j >= 0; --j) lead[j] = lead[j] + lead[j + 1];
    if (rest + count > 0) {
      Planes middle{};
      bool any = false;
#pragma unroll 1
      for (int i = 0; i < rest; ++i, any = true) {
        const Planes plane = read(top + kGroup + i);
        middle = any ? middle + plane : plane;
      }
#pragma unroll 1
      for (int b = 0; b < count; ++b, any = true) {
        const int slot = oldest + b < count ? oldest + b : oldest + b - count;
        const Planes sum = a.ring ? ring[slot * kDepthThreads] : block_at(top + kGroup + rest + b * kGroup);
        middle = any ? middle + sum : sum;
      }
#pragma unroll
      for (int j = 0; j < kGroup; ++j) lead[j] = lead[j] + middle;
    }
    Planes last = trail[0];
    finish(z, lead[0] + last);
#pragma unroll
    for (int j = 1; j < kGroup; ++j) {
      last = last + trail[j];
      finish(z + j, lead[j] + last);
    }
    if (a.ring && count > 0) {
      ring[oldest * kDepthThreads] =
          block_sum<Planes>(trail[0], trail[1], trail[2], trail[3], trail[4], trail[5], trail[6], trail[7]);
      oldest = oldest + 1 == count ? 0 : oldest + 1;
    }
  }
}

}  // namespace torch_conv::box
