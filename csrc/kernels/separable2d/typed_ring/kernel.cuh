// Both passes of a separable filter of any size (stride 1, dilation 1) of narrow elements, streaming down a strip of
// one plane.
//
//    skew   width numbers + (kw - 1) * C
//   |----|------------------------------+
//        | box: the next 32 input rows  |  row pass: a thread makes 16 outputs of one row and channel
//        +------------------------------+
//                      v
//        +--------------------------+
//        | ring: row results,       |      column pass: a thread makes 16 neighbouring rows of one column;
//        | kh - 1 + 32 rows or more |      two groups of threads, one below the other
//        +--------------------------+
//
// A number is a value of a row: of a plane (C = 1), or of the C interleaved channels of an HWC image, whose next tap is
// C numbers further. Boxes hold the image's dtype, the ring float32. The row pass converts; it reads quads of
// neighbours of a plane, single numbers of an HWC image. Sizes are run-time numbers, so that few kernels serve every
// window.
//
// A step waits for its box, whose row results overwrite the oldest 32 rows of the ring. It then starts the copy of the
// next box, which overlaps the column pass, and writes 32 rows of outputs. A row result is computed once a strip.
// Blocks of a strip's edge rewrite the part of a box outside the image; `zero_output` writes its zeros behind the
// column pass.
//
// Per output: one read, one write, 2 * (kw + kh) flops; kw - 1 pixels more a strip's row, kh - 1 rows more a strip.
// Either pass reads a value from shared memory once per 16 outputs, and converts it as often.
#pragma once

#include "core/cuda/device.cuh"
#include "core/cuda/extend.cuh"
#include "core/cuda/packed.cuh"
#include "core/cuda/tma.cuh"
#include "core/cuda/unroll.cuh"
#include "kernels/separable2d/typed_ring/params.h"

namespace torch_conv::separable2d {

// The multiply-adds of up to four taps: tap(j) for j < count. Returns whether these were the last ones.
template <class Tap>
__device__ __forceinline__ bool typed_taps(int& count, const Tap& tap) {
  tap(std::integral_constant<int, 0>{});
  if (count < 4) {
    if (count > 1) tap(std::integral_constant<int, 1>{});
    if (count > 2) tap(std::integral_constant<int, 2>{});
    return true;
  }
  unroll<1, 4>(tap);
  return (count -= 4) == 0;
}

// sums[e] += taps[u] * element[e + u] for u < count ascending, of neighbouring outputs; element 0 is from[kSkip]. A
// quad of elements is read once, kQuads of them are in registers.
template <int kSkip, typename T>
__device__ __forceinline__ void typed_quads(const T* from, const float* taps, int count, float (&sums)[kRingReuse]) {
  constexpr int kQuads = (kSkip + kRingReuse + 2) / 4 + 1;  // under four taps
  float quads[kQuads][4];                                   // element e is in quads[e / 4 % kQuads]
  unroll<0, kQuads - 1>([&](auto q) { widen_pack<4>(from + 4 * q, quads[q]); });
  from += 4 * (kQuads - 1);
  const auto group = [&](auto g) {
    widen_pack<4>(from + 4 * g, quads[(g + kQuads - 1) % kQuads]);
    const auto four = load_pack<4>(taps + 4 * g);
    return typed_taps(count, [&](auto j) {
      unroll<0, kRingReuse>([&](auto e) {
        constexpr int at = kSkip + decltype(e)::value + decltype(j)::value;
        sums[e] = fmaf(four.v[j], quads[(at / 4 + g) % kQuads][at % 4], sums[e]);
      });
    });
  };
  while (!unroll_until<0, kQuads>(group)) from += 4 * kQuads, taps += 4 * kQuads;
}

// The same of outputs kStep numbers apart; slot(b) is where elements 16 b .. 16 b + 15 begin.
template <int kStep, typename Slot>
__device__ __forceinline__ void typed_numbers(const float* taps, int count, float (&sums)[kRingReuse], Slot slot) {
  constexpr int V = kRingReuse;
  float window[V];  // element e is window[e % V]
  auto elements = slot(0), next = slot(1);
  unroll<0, V - 1>([&](auto v) { window[v] = widen_one(elements[v * kStep]); });
  const auto group = [&](auto g) {
    const auto four = load_pack<4>(taps + g);
    return typed_taps(count, [&](auto j) {
      constexpr int e = decltype(g)::value + decltype(j)::value + V - 1;
      window[e % V] = widen_one((e < V ? elements : next)[e % V * kStep]);
      unroll<0, V>([&](auto v) { sums[v] = fmaf(four.v[j], window[(g + j + v) % V], sums[v]); });
    });
  };
  for (int b = 2; !unroll_until<0, V, 4>(group); ++b, taps += V) elements = next, next = slot(b);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

// A block: a strip of a plane.
template <typename T, int kPixel>
struct TypedStrip {
  static constexpr int V = kRingReuse, kThreads = ring_threads(kPixel), kWidth = ring_width(kPixel);
  static constexpr int kPitch = ring_pitch(kPixel);  // of the ring

  const TypedParams& p;
  const TensorMap& map;
  T* box;
  float *ring, *taps_x, *taps_y;
  uint64_t *full, *read;  // a box has come; the column passes are done with the ring
  unsigned n, c;
  int x0, y0, rows_out, first_x, first_y;

  __device__ __forceinline__ TypedStrip(const TypedParams& p, const TensorMap& map, unsigned char* shared)
      : p(p), map(map) {
    box = reinterpret_cast<T*>(shared);
    ring = reinterpret_cast<float*>(shared + p.tile.box_bytes(sizeof(T)));
    taps_x = ring + p.tile.ring_numbers();
    taps_y = taps_x + p.tile.taps_x();
    full = reinterpret_cast<uint64_t*>(taps_x + p.tile.taps());
    read = full + 1;
    const TilePosition at = p.order.at(blockIdx.x);
    n = at.n, c = at.c;
    x0 = at.x * kWidth, y0 = at.y * p.tile.steps * kRingRows;
    rows_out = min(p.tile.steps * kRingRows, p.planes.out_h - y0);
    first_x = x0 - p.pad_x - p.tile.skew, first_y = y0 - p.pad_y;
  }

  __device__ __forceinline__ const T* plane() const { return p.planes.in_plane<T>(n, c); }
  __device__ __forceinline__ int boxes() const { return ring_fill(p.tile.kh) + (rows_out + kRingRows - 1) / kRingRows; }

  // Rows of box i that outputs need, in whole pieces: the last boxes are not full.
  __device__ __forceinline__ int needed(int i) const {
    const int rows = max(rows_out + p.tile.kh - 1 - i * kRingRows, 0);
    return min(kRingRows, (rows + kRingPiece - 1) / kRingPiece * kRingPiece);
  }

  // All threads; starts the copies of box i.
  __device__ __forceinline__ void load(int i) const {
    const int rows = needed(i), y = first_y + i * kRingRows, pitch = p.tile.pitch;
    constexpr int kPack = tma::pack_of(sizeof(T));
    if (threadIdx.x != 0) return;
    tma::barrier_expect(full, rows * pitch * int(sizeof(T)));
    for (int r = 0; r < rows; r += kRingPiece) tma::load_box(box + r * pitch, &map, full, first_x / kPack, y + r, c, n);
  }

  // All threads. The taps are there behind the barrier.
  __device__ __forceinline__ void start() const {
    if (threadIdx.x == 0) {
      tma::barrier_init(full);
      tma::barrier_init(read, kThreads / 32 * kWarpArrivals);
    }
    load(0);
    for (int i = threadIdx.x; i < p.tile.kw; i += kThreads) taps_x[i] = p.taps.of<float>(p.taps.x, n, c)[i];
    for (int i = threadIdx.x; i < p.tile.kh; i += kThreads) taps_y[i] = p.taps.of<float>(p.taps.y, n, c)[i];
    __syncthreads();
  }

  // Rewrites the part of box i outside the image, unless the border asks for the zeros that are there. All threads.
  __device__ __forceinline__ void extend(int i) const {
    const int width = min(kWidth, p.planes.out_w - x0) + (p.tile.kw - 1) * kPixel;
    const bool edge_x = x0 < p.pad_x || x0 - p.pad_x + width > p.planes.in_w;
    const bool policy = p.border != Border::zero_output && !p.zero_fill;
    const int top = first_y + i * kRingRows, rows = needed(i);
    const bool above = top < 0 && (policy || p.peers.above.rows > 0);
    const bool below = top + rows > p.planes.in_h && (policy || p.peers.below.rows > 0);
    if (!above && !below && !(policy && edge_x)) return;
    extend_box<kThreads>(SharedTile<T>{box + p.tile.skew, p.tile.pitch}, {0, rows, 0, width},
                         {top, first_x + p.tile.skew}, plane(), p.planes.in_stride_h, p.planes.in_h, p.planes.in_w,
                         p.border, from_acc<T>(p.value), ShardRows{p.peers, n, c}, {kPixel, kPixel});
    tma::fence_before_copy();  // of the next box
    __syncthreads();
  }

  // The 16 outputs of a thread in row r of the box, from its column `column` on.
  __device__ __forceinline__ void row_pass(int r, int column, float (&sums)[V]) const {
    const T* const row = box + r * p.tile.pitch + column;
    const int skew = p.tile.skew, kw = p.tile.kw;
    if constexpr (kPixel > 1) {
      typed_numbers<kPixel>(taps_x, kw, sums, [&](int b) { return row + skew + b * V * kPixel; });
    } else {
      const T* const from = row + skew / 4 * 4;
      switch (skew % 4) {
        case 0: typed_quads<0>(from, taps_x, kw, sums); break;
        case 1: typed_quads<1>(from, taps_x, kw, sums); break;
        case 2: typed_quads<2>(from, taps_x, kw, sums); break;
        default: typed_quads<3>(from, taps_x, kw, sums);
      }
    }
  }

  __device__ __forceinline__ void keep(float* to, const float (&sums)[V]) const {
    if constexpr (kPixel == 1) {
#pragma unroll
      for (int e = 0; e < V; e += 4)
        *reinterpret_cast<float4*>(to + e) = {sums[e], sums[e + 1], sums[e + 2], sums[e + 3]};
    } else {
#pragma unroll
      for (int e = 0; e < V; ++e) to[e * kPixel] = sums[e];
    }
  }

  // Border::zero_output: clears the sums of column x, from row y on, whose windows overlap the image's edge.
  __device__ __forceinline__ void clear_outside(int x, int y, float (&sums)[V]) const {
    const int left = x - p.pad_x;
    const bool fits_x = left >= 0 && left + (p.tile.kw - 1) * kPixel < p.planes.in_w;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int top = y + v - p.pad_y;
      if (!fits_x || !p.peers.inside(top, top + p.tile.kh - 1, p.planes.in_h)) sums[v] = 0;
    }
  }

  __device__ __forceinline__ void store(int x, int y, const float (&sums)[V]) const {
    const int rows = x < p.planes.out_w ? min(p.planes.out_h - y, V) : 0;
    with_type(p.out_dtype, [&](auto zero) {
      using Out = decltype(zero);
      Out* to = p.planes.out_plane<Out>(n, c) + x + y * p.planes.out_stride_h;
      unroll<0, V>([&](auto v) {
        if (v < rows) *to = from_acc<Out>(sums[v]);
        to += p.planes.out_stride_h;
      });
    });
  }

  __device__ __forceinline__ void run() {
    // Row pass: eight neighbouring lanes read eight rows, whose pitches are odd multiples of 16 bytes, without bank
    // conflicts of float32. So do the numbers of four channels; others have some conflicts.
    constexpr int kRowThreads = kWidth / V;
    const int eight = threadIdx.x / 8, segment = eight % kRowThreads, r = threadIdx.x % 8 + eight / kRowThreads * 8;
    const int column = segment / kPixel * V * kPixel + segment % kPixel;
    float* const row_to = ring + r * kPitch + column;
    const int group = threadIdx.x / kWidth, across = threadIdx.x % kWidth;  // of the column pass
    const int slots = ring_slots(p.tile.kh), fill = ring_fill(p.tile.kh), count = boxes();

    int oldest = 0;  // slot of the ring
    for (int i = 0; i < count; ++i) {
      const int step = i - fill;
      tma::barrier_wait(full, i % 2);
      extend(i);
      if (r < needed(i)) {
        float sums[V] = {};
        row_pass(r, column, sums);
        if (step > 0) tma::barrier_wait(read, (step - 1) % 2);
        keep(row_to + oldest * V * kPitch, sums);
      }
      oldest = oldest + kRingGroups == slots ? 0 : oldest + kRingGroups;
      __syncthreads();
      if (i + 1 < count) load(i + 1);
      if (step < 0) continue;

      float sums[V] = {};
      typed_numbers<kPitch>(taps_y, p.tile.kh, sums, [&](int b) {
        const int slot = oldest + group + b;
        return ring + across + (slot >= slots ? slot - slots : slot) * V * kPitch;
      });
      tma::warp_arrive(read);
      const int x = x0 + across, y = y0 + step * kRingRows + group * V;
      if (p.border == Border::zero_output) clear_outside(x, y, sums);
      store(x, y, sums);
    }
  }
};

#endif

template <typename T, int kPixel>
__global__ void __launch_bounds__(ring_threads(kPixel), ring_residents(kPixel))
    separable_typed_ring(const __grid_constant__ TypedParams p, const __grid_constant__ TensorMap map) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char shared[];
  TypedStrip<T, kPixel> strip(p, map, shared);
  strip.start();
  strip.run();
#endif
}

}  // namespace torch_conv::separable2d
