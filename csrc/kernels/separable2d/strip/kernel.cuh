// Both passes of a separable filter of any size (stride 1, dilation 1) on planar images, streaming down a strip.
//
//            128 columns + kw - 1
//        +--------------------------+
//        | staged: 16 input rows    |  row pass: a thread filters 16 neighbouring columns of one row
//        +--------------------------+
//                    v
//        +----------------------+
//        | ring: row results of |        column pass: a thread filters 16 neighbouring rows of one column
//        | kh + 15 rows or more |
//        +----------------------+
//
// Every step row-filters 16 staged rows into the oldest 16 rows of the ring and column-filters the ring into 16 output
// rows. The next 16 rows are staged during the column pass. A row result is computed once per strip and read once per
// 16 outputs. The resident blocks of a multiprocessor hide one another's loads and barriers. An output costs 2 * (kh +
// kw) flops, and kw more for the kh - 1 rows above each strip.
#pragma once

#include "core/cuda/async_copy.cuh"
#include "core/cuda/device.cuh"
#include "kernels/separable2d/strip/params.h"

namespace torch_conv::separable2d {

// One 16-row step's input, by eight threads a row: 16-byte copies inside the image, elements elsewhere.
template <typename T>
__device__ __forceinline__ void stage_rows(T* staged, const T* plane, const StripParams& p, int first_y, int first_x,
                                           unsigned n, unsigned channel) {
  constexpr int N = 16 / sizeof(T), kThreads = kStripThreads / kStripRows;
  const int r = threadIdx.x / kThreads, t = threadIdx.x % kThreads;
  const int columns = p.shape.columns;
  const int y = p.peers.map_row(first_y + r, p.planes.in_h, p.border);
  const bool exists = y != PeerRows::kOutside;
  const T* row = p.peers.row(plane, p.planes.in_stride_h, exists ? y : 0, p.planes.in_h, n, channel);
  T* to = staged + r * p.shape.pitch;
  int left = 0, right = 0;  // staged columns [left, right) are whole vectors inside the image
  if (p.aligned_loads && exists) {
    left = min(max(-first_x, 0), columns);
    right = max(min((p.planes.in_w - first_x) / N * N, columns), left);
  }
  for (int c = left + t * N; c < right; c += kThreads * N) async_copy<16>(to + c, row + first_x + c);
  async_commit();
  const T value = from_acc<T>(p.value);
#pragma unroll 4
  for (int i = t; i < columns - (right - left); i += kThreads) {
    const int c = i < left ? i : i + right - left, x = map_index(first_x + c, p.planes.in_w, p.border);
    to[c] = exists && x >= 0 ? row[x] : value;
  }
}

// A predicated step of a chain: behind a branch around every tap the compiler would load each element right before its
// use and wait for it.
__device__ __forceinline__ void fma_if(bool condition, float tap, float element, float& sum) {
  asm("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p fma.rn.f32 %0, %1, %2, %0; }"
      : "+f"(sum)
      : "f"(tap), "f"(element), "r"(int(condition)));
}

// Row pass of one row over kStripReuse neighbouring columns; output e reads element skew + e + j at tap j.
template <int kSkew, typename T>
__device__ __forceinline__ void strip_row_pass(const T* from, const float* taps, int k, float* to) {
  constexpr int V = kStripReuse, kElements = (kSkew + 2 * V - 1 + 3) / 4 * 4;
  float sums[V] = {};
  auto block = [&](int j, int count) {
    float v[kElements], tap[V];
#pragma unroll
    for (int i = 0; i < kElements; i += 4) {
      const auto pack = load_pack<4>(from + j + i);
#pragma unroll
      for (int e = 0; e < 4; ++e) v[i + e] = to_acc<float>(pack.v[e]);
    }
#pragma unroll
    for (int u = 0; u < V; ++u) tap[u] = taps[j + u];
#pragma unroll
    for (int u = 0; u < V; ++u) {
      if (u % 4 == 0 && u >= count) break;
#pragma unroll
      for (int e = 0; e < V; ++e) fma_if(u % 4 == 0 || u < count, tap[u], v[kSkew + e + u], sums[e]);
    }
  };
  int j = 0;
#pragma unroll 1
  for (; j + V <= k; j += V) block(j, V);
  if (j < k) block(j, k - j);
#pragma unroll
  for (int e = 0; e < V; e += 4) *reinterpret_cast<float4*>(to + e) = {sums[e], sums[e + 1], sums[e + 2], sums[e + 3]};
}

// Column pass of one column over kStripRows neighbouring rows; slot(b) holds rows 16 b .. 16 b + 15 of the column.
template <typename Slot>
__device__ __forceinline__ void strip_column_pass(float (&sums)[kStripRows], const float* taps, int k, Slot slot) {
  constexpr int V = kStripRows;
  float window[V];  // row e is window[e % V]
  const float* rows = slot(0);
#pragma unroll
  for (int v = 0; v < V; ++v) window[v] = rows[v * kStripPitch];
  auto block = [&](int i, int count) {
    rows = slot(i / V + 1);
    float next[V], tap[V];
#pragma unroll
    for (int u = 0; u < V; ++u) next[u] = rows[u * kStripPitch], tap[u] = taps[i + u];
#pragma unroll
    for (int u = 0; u < V; ++u) {
      if (u % 4 == 0 && u >= count) break;
#pragma unroll
      for (int v = 0; v < V; ++v) fma_if(u % 4 == 0 || u < count, tap[u], window[(u + v) % V], sums[v]);
      window[u] = next[u];
    }
  };
  int i = 0;
#pragma unroll 1
  for (; i + V <= k; i += V) block(i, V);
  if (i < k) block(i, k - i);
}

template <typename T>
__global__ void __launch_bounds__(kStripThreads, kStripBlocks) separable_strip(const __grid_constant__ StripParams p) {
  extern __shared__ __align__(128) unsigned char shared[];
  const StripShape& shape = p.shape;
  float* taps_x = reinterpret_cast<float*>(shared);
  float* taps_y = taps_x + round_up(p.kw, kStripReuse);
  float* ring = taps_y + round_up(p.kh, kStripRows);
  T* staged = reinterpret_cast<T*>(ring + shape.slots * kStripRows * kStripPitch);

  const unsigned tile_x = blockIdx.x % p.tiles_x, row = blockIdx.x / p.tiles_x;
  const unsigned tile_y = row % p.tiles_y, plane_index = row / p.tiles_y;
  const unsigned n = plane_index / p.channels, c = plane_index % p.channels;
  const int x0 = tile_x * kStripThreads, y0 = tile_y * shape.steps * kStripRows;
  const int steps = min(shape.steps, (p.planes.out_h - y0 + kStripRows - 1) / kStripRows);
  const int first_x = x0 - p.pad_x - shape.skew, first_y = y0 - p.pad_y;
  const T* plane = p.planes.in_plane<T>(n, c);

  stage_rows(staged, plane, p, first_y, first_x, n, c);
  for (int i = threadIdx.x; i < p.kw; i += kStripThreads) taps_x[i] = p.taps.of<float>(p.taps.x, n, c)[i];
  for (int i = threadIdx.x; i < p.kh; i += kStripThreads) taps_y[i] = p.taps.of<float>(p.taps.y, n, c)[i];

  // Eight neighbouring lanes on eight rows, whose pitches are odd multiples of 16 bytes: no bank conflicts.
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int r = lane % 8 + warp % 2 * 8, column = (lane / 8 + warp / 2 * 4) * kStripReuse;
  const T* from = staged + r * shape.pitch + column + shape.skew / 4 * 4;

  const int x = x0 + threadIdx.x;
  T* out = p.planes.out_plane<T>(n, c) + x;
  const bool fits_x = x >= p.pad_x && x - p.pad_x + p.kw <= p.planes.in_w;

  int oldest = 0;  // slot of the ring
  for (int step = 1 - shape.slots;; ++step) {
    async_wait<0>();
    __syncthreads();
    float* to = ring + (oldest * kStripRows + r) * kStripPitch + column;
    switch (shape.skew % 4) {
      case 0: strip_row_pass<0>(from, taps_x, p.kw, to); break;
      case 1: strip_row_pass<1>(from, taps_x, p.kw, to); break;
      case 2: strip_row_pass<2>(from, taps_x, p.kw, to); break;
      case 3: strip_row_pass<3>(from, taps_x, p.kw, to); break;
    }
    oldest = oldest + 1 == shape.slots ? 0 : oldest + 1;
    __syncthreads();
    if (step + 1 < steps) stage_rows(staged, plane, p, first_y + (step + shape.slots) * kStripRows, first_x, n, c);
    if (step < 0) continue;

    float sums[kStripRows] = {};
    strip_column_pass(sums, taps_y, p.kh, [&](int b) {
      const int slot = oldest + b;
      return ring + (slot >= shape.slots ? slot - shape.slots : slot) * kStripRows * kStripPitch + threadIdx.x;
    });
    const int y = y0 + step * kStripRows, rows = min(kStripRows, p.planes.out_h - y);
    if (p.border == Border::zero_output) {
#pragma unroll
      for (int v = 0; v < kStripRows; ++v) {
        const int top = y + v - p.pad_y;
        if (!fits_x || !p.peers.inside(top, top + p.kh - 1, p.planes.in_h)) sums[v] = 0;
      }
    }
    if (x < p.planes.out_w) {
      T* to = out + y * p.planes.out_stride_h;
#pragma unroll
      for (int v = 0; v < kStripRows; ++v)
        if (v < rows) to[v * p.planes.out_stride_h] = from_acc<T>(sums[v]);
    }
    if (step + 1 == steps) break;
  }
}

}  // namespace torch_conv::separable2d
