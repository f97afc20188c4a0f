// Sums of windows along one axis, over elements in memory: each output is one chain of fused multiply-adds from 0, in
// the order of the taps.
#pragma once

#include "core/cuda/device.cuh"
#include "core/line_buffer.h"

namespace torch_conv {

// sums[v] += taps[i] * at(v, i) for i ascending: one fma chain per output.
template <int V, typename A, typename At>
__device__ __forceinline__ void accumulate(A (&sums)[V], const A* taps, int count, bool reuse, At at) {
  if (!reuse) {
#pragma unroll 2
    for (int i = 0; i < count; ++i) {
      const A tap = taps[i];
#pragma unroll
      for (int v = 0; v < V; ++v) sums[v] = fma(tap, at(v, i), sums[v]);
    }
    return;
  }
  // at(v, i) == at(0, v + i): element e is window[e % V].
  A window[V];
#pragma unroll
  for (int v = 0; v < V - 1; ++v) window[v] = at(0, v);
  int i = 0;
  for (; i + V <= count; i += V) {
    A next[V], tap[V];
#pragma unroll
    for (int u = 0; u < V; ++u) next[u] = at(0, i + u + V - 1), tap[u] = taps[i + u];
#pragma unroll
    for (int u = 0; u < V; ++u) {
      window[(u + V - 1) % V] = next[u];
#pragma unroll
      for (int v = 0; v < V; ++v) sums[v] = fma(tap[u], window[(u + v) % V], sums[v]);
    }
  }
#pragma unroll
  for (int u = 0; u < V - 1; ++u) {
    if (i + u >= count) break;
    window[(u + V - 1) % V] = at(0, i + u + V - 1);
    const A tap = taps[i + u];
#pragma unroll
    for (int v = 0; v < V; ++v) sums[v] = fma(tap, window[(u + v) % V], sums[v]);
  }
}

// Selects the taps inside an axis, for Border::skip; `first` is the position of output 0 at tap 0.
struct Axis {
  int64_t size, stride, dilation;
  __device__ bool inside(int64_t first, int v, int i) const {
    const int64_t at = first + v * stride + i * dilation;
    return at >= 0 && at < size;
  }
  __device__ bool covers(int64_t first, int outputs, int taps) const {
    return first >= 0 && inside(first, outputs - 1, taps - 1);
  }
};

// Accumulates only the taps inside the axis.
template <int V, typename A, typename At>
__device__ __forceinline__ void accumulate_inside(A (&sums)[V], const A* taps, int count, Axis axis, int64_t first,
                                                  At at) {
  for (int i = 0; i < count; ++i) {
    const A tap = taps[i];
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (axis.inside(first, v, i)) sums[v] = fma(tap, at(v, i), sums[v]);
  }
}

// Four taps by 16 bytes at a time.
template <typename A>
__device__ __forceinline__ void load_taps(const A* from, A (&taps)[4]) {
  constexpr int kPack = 16 / sizeof(A);
#pragma unroll
  for (int i = 0; i < 4; i += kPack) {
    const auto pack = load_pack<kPack>(from + i);
#pragma unroll
    for (int j = 0; j < kPack; ++j) taps[i + j] = pack.v[j];
  }
}

// sums[v] += taps[i] * from[(v * kStride + i) * step] for i ascending; an element is read once, and element e is
// window[e % kWindow]. Four taps at a time, which start on 16 bytes and whose elements are read before: up to
// kLineBeyond elements behind the last one. A constant step is an operand of the loads.
template <int kStride, int V, typename A, typename Step>
__device__ __forceinline__ void slide(A (&sums)[V], const A* taps, int count, const A* from, Step step) {
  constexpr int kWindow = V * kStride, kLast = (V - 1) * kStride;
  A window[kWindow];
#pragma unroll
  for (int e = 0; e < kLast; ++e) window[e] = from[e * step];
  for (int remaining = count;; taps += kWindow, from += kWindow * step) {
#pragma unroll
    for (int u = 0; u < kWindow; u += 4) {
      A next[4], tap[4];
      load_taps(taps + u, tap);
#pragma unroll
      for (int j = 0; j < 4; ++j) next[j] = from[(u + j + kLast) * step];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (j > 0 && j >= remaining) return;
        window[(u + j + kLast) % kWindow] = next[j];
#pragma unroll
        for (int v = 0; v < V; ++v) sums[v] = fma(tap[j], window[(u + j + v * kStride) % kWindow], sums[v]);
      }
      remaining -= 4;
      if (remaining <= 0) return;
    }
  }
}

// f(step) with a constant if the step is one of kSteps.
template <int... kSteps, typename F>
__device__ __forceinline__ void with_step(int step, const F& f) {
  const bool constant = ((step == kSteps && (f(std::integral_constant<int, kSteps>{}), true)) || ...);
  if (!constant) f(step);
}

// Near an edge: V outputs without the taps outside, few at a time. put(sums, v) takes outputs from v on.
template <int V, typename A, typename Put>
__device__ __forceinline__ void pass_inside(const A* taps, int count, const A* from, int step, const Axis& axis,
                                            int first, Put put) {
  constexpr int kFew = 4;
  const int step_v = int(axis.stride) * step, step_i = int(axis.dilation) * step;
#pragma unroll 1
  for (int v = 0; v < V; v += kFew, from += kFew * step_v, first += kFew * int(axis.stride)) {
    A sums[kFew] = {};
    accumulate_inside(sums, taps, count, axis, first, [&](int w, int i) { return from[w * step_v + i * step_i]; });
    put(sums, v);
  }
}

// One of the passes over V neighbouring outputs; elements of the axis are `step` apart, mostly one of kSteps, and
// output 0 begins at position `first`. With `skip` taps outside are left out. put(sums, v) takes outputs from v on.
template <int kStride, int V, int... kSteps, typename A, typename Put>
__device__ __forceinline__ void line_pass(const A* taps, int count, const A* from, int step, bool skip,
                                          const Axis& axis, int first, Put put) {
  if (skip && !axis.covers(first, V, count)) return pass_inside<V>(taps, count, from, step, axis, first, put);
  A sums[V] = {};
  if constexpr (kStride == 0) {
    const int step_v = int(axis.stride) * step, step_i = int(axis.dilation) * step;
    accumulate(sums, taps, count, false, [&](int v, int i) { return from[v * step_v + i * step_i]; });
  } else {
    with_step<kSteps...>(step, [&](auto constant) { slide<kStride>(sums, taps, count, from, constant); });
  }
  put(sums, 0);
}

}  // namespace torch_conv
