// The depth pass of a 3-D box of integers: running sums along z over the planes' window sums.
//
// clang-format off
//      z   - - - - - - - -
//          |  leaving    |   A thread owns 16 bytes of neighbouring sums of a plane and streams down a chunk of z:
//          |+++++++++++++|
//          || window of ||      total += plane z - pad_z + kd  -  plane z - pad_z          (entering, leaving)
//          || output z  ||
//          |+++++++++++++|   Planes are loaded 16 outputs ahead (32 loads in flight a thread); their indices are mapped
//          |  entering   |   by the lanes of a warp, one each.
//          - - - - - - - -
// clang-format on
//
// Totals are float64: whole numbers stay exact. Every chunk starts afresh, with each plane read once, however often a
// border repeats it in the window. A border's value that is NaN or Inf never leaves a running sum. A batch that ends
// with one is summed again, every output by itself, and the running sums continue from there. Per output: 2 reads of a
// plane, the leaving one often from L2; 1 write; 2 additions.
#pragma once

#include "kernels/box/depth/shared/common.cuh"
#include "kernels/box/mean.h"

namespace torch_conv::box {

// total / area of whole numbers, rounded half to even. The remainder tells whether the product is one off.
__device__ __forceinline__ double whole_mean(double total, double area, double reciprocal) {
  const double quotient = rint(total * reciprocal), twice = 2 * fma(-quotient, area, total);
  const double odd = int(quotient) & 1;
  return quotient + (twice + odd > area ? 1. : 0.) - (odd - twice > area ? 1. : 0.);
}

// The total of one window of every neighbour, plane by plane.
template <typename S, int V>
__device__ __forceinline__ void window_totals(const DepthArgs& a, const S* from, int z, double (&total)[V]) {
  const int first = z - a.pad_z;
#pragma unroll
  for (int v = 0; v < V; ++v) total[v] = 0;
  auto add = [&](int plane, double times) {
    Pack<V, S> pack;
    if constexpr (V == 1) pack.v[0] = from[plane * a.in_d];
    else pack = load_pack<V>(from + plane * a.in_d);
#pragma unroll
    for (int v = 0; v < V; ++v) total[v] += times * double(pack.v[v]);
  };
  static_assert(kBorders == 7, "a border with a period needs a line here");
  int period = 0;  // a call of period_of() would take more registers
  if (a.border == Border::circular) period = a.d;
  if (a.border == Border::reflect) period = max(2 * (a.d - 1), 1);
  if (a.border == Border::symmetric) period = 2 * a.d;
  if (period > 0) {
    const int count = min(a.kd, period);
#pragma unroll 4
    for (int i = 0; i < count; ++i) add(map_index(first + i, a.d, a.border), double((a.kd - i + period - 1) / period));
    return;
  }
  const int below = min(max(-first, 0), a.kd), above = min(max(first + a.kd - a.d, 0), a.kd);
  if (a.border == Border::replicate) {
    if (below > 0) add(0, below);
    if (above > 0) add(a.d - 1, above);
  } else if (below + above > 0) {
#pragma unroll
    for (int v = 0; v < V; ++v) total[v] = (below + above) * a.outside;
  }
#pragma unroll 8
  for (int i = below; i < a.kd - above; ++i) add(first + i, 1);
}

// The output of one total; `at` is the element's position in its run. kPlain: one product, or a rounded mean.
template <typename Out, bool kPlain>
__device__ __forceinline__ double depth_output(const DepthArgs& a, double total, bool fits, int z, int64_t row,
                                               int64_t at) {
  if constexpr (kPlain) {
    double value = total * a.scale;
    if constexpr (std::is_integral_v<Out>)
      if (a.exact) value = whole_mean(total, a.area, a.scale);
    return fits ? value : 0;
  } else {
    if (!fits) return 0;
    const double area = a.finish == Finish::mean_inside ? double(voxels_inside(a, z, row, at)) : a.area;
    return area == 0 ? 0 : mean_of<double>(total, area, a.whole);
  }
}

template <typename S, int V, typename Out, bool kPlain>
__global__ void __launch_bounds__(kDepthThreads, depth_blocks(std::is_integral_v<Out> || !kPlain))
    box_depth(const __grid_constant__ DepthArgs a) {
  constexpr int B = kPlain ? depth_batch(std::is_integral_v<Out>) : 2;  // the other endings are long code
  const DepthPosition<S, V> position(a);
  const S* const from = position.from;
  const int z0 = int(position.chunk) * a.chunk, z1 = min(z0 + a.chunk, int(a.out.d)), lane = threadIdx.x % 32;

  auto finish = [&](int z, const double(&total)[V]) {
    const bool fits = a.finish != Finish::interior || (z >= a.pad_z && z - a.pad_z + a.kd <= a.d);
    double value[V];
#pragma unroll
    for (int v = 0; v < V; ++v)
      value[v] = depth_output<Out, kPlain>(a, total[v], fits, z, position.row, position.at + v);
    store_depth<Out>(a, position.to + z * a.out.stride_d, value, position.stored && z < z1);
  };

  // The first B lanes map the planes that enter after outputs z, z + 1 .., the next B those that leave.
  auto planes_at = [&](int z) {
    const int step = min(z + lane % B, z1 - 1) - a.pad_z;
    return map_index(lane % (2 * B) < B ? step + a.kd : step, a.d, a.border);
  };
  auto load = [&](Pack<V, S>& raw, int mine, int u) {
    const int64_t m = max(__shfl_sync(~0u, mine, u), 0);
    if constexpr (V == 1) raw.v[0] = from[m * a.in_d];
    else raw = load_pack<V>(from + m * a.in_d);
  };

  Pack<V, S> raw[2 * B] = {};
  int next = planes_at(z0);
#pragma unroll
  for (int u = 0; u < B; ++u)
    if (z0 + u < z1) load(raw[u], next, u), load(raw[B + u], next, B + u);
  double total[V];
  window_totals(a, from, z0, total);
#pragma unroll 1
  for (int z = z0; z < z1; z += B) {
    const unsigned outside = __ballot_sync(~0u, next < 0);
    next = planes_at(z + B);
#pragma unroll
    for (int u = 0; u < B; ++u) {
      finish(z + u, total);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const double entering = outside >> u & 1 ? a.outside : double(raw[u].v[v]);
        const double leaving = outside >> (B + u) & 1 ? a.outside : double(raw[B + u].v[v]);
        total[v] += entering - leaving;
      }
      if (z + B + u < z1) load(raw[u], next, u), load(raw[B + u], next, B + u);
    }
    bool smeared = false;
#pragma unroll
    for (int v = 0; v < V; ++v) smeared |= !isfinite(total[v]);
    if (smeared) {
#pragma unroll 1
      for (int u = 0; u <= B && z + u < z1; ++u) {
        window_totals(a, from, z + u, total);
        if (u < B) finish(z + u, total);
      }
    }
    __syncwarp();
  }
}

}  // namespace torch_conv::box
