// Both passes of a separable filter of float32 of any size (stride 1, dilation 1), streaming down a strip of one plane.
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
// C numbers further. Only the row pass differs: it reads quads of neighbours of a plane, single numbers of an HWC
// image.
//
// A step waits for its box, whose row results overwrite the oldest 32 rows of the ring. It then starts the copy of the
// next box, which overlaps the column pass, and writes 32 rows of outputs. A row result is computed once a strip.
// Blocks of a strip's edge rewrite the part of a box outside the image; `zero_output` writes its zeros behind the
// column pass.
//
// Boxes come by bulk copies where rows start on 16 bytes and have at most 256 columns. Otherwise all threads
// copy single numbers, asynchronously.
//
// Per output: one read, one write, 2 * (kw + kh) flops; kw - 1 pixels more a strip's row, kh - 1 rows more a strip.
// Either pass reads a value from shared memory once per 16 outputs.
#pragma once

#include "core/cuda/async_copy.cuh"
#include "core/cuda/device.cuh"
#include "core/cuda/extend.cuh"
#include "core/cuda/tma.cuh"
#include "kernels/separable2d/ring/params.h"

namespace torch_conv::separable2d {

// Both passes go by blocks of 16 taps and a last one of 16 to 31 (of all, where they are fewer): unrolled code of a few
// hundred lines, which the instruction caches hold.
constexpr int ring_blocks_of(int k) { return k < 32 ? 0 : k / 16 - 1; }
constexpr int ring_tail(int k) { return k - 16 * ring_blocks_of(k); }

// Tap u of a window, for u ascending from 0. A kernel's parameters are operands of its multiply-adds; from shared
// memory four come at once.
template <bool kInline>
struct RingTaps {
  const float* from;
  float4 four;
  __device__ __forceinline__ float at(int u) {
    if constexpr (kInline) return from[u];
    if (u % 4 == 0) four = *reinterpret_cast<const float4*>(from + u);
    return u % 4 == 0 ? four.x : u % 4 == 1 ? four.y : u % 4 == 2 ? four.z : four.w;
  }
};

// sums[e] += taps[u] * element[e + u] for u < kCount ascending; element 0 is from[kSkip].
template <bool kInline, int kCount, int kSkip, bool kFirst>
__device__ __forceinline__ void ring_quad_taps(const float* from, const float* taps, float (&sums)[kRingReuse]) {
  float row[(kSkip + kRingReuse - 1 + kCount + 3) / 4 * 4];
#pragma unroll
  for (int i = 0; i < int(sizeof(row) / 4); i += 4) {
    const auto pack = load_pack<4>(from + i);
#pragma unroll
    for (int e = 0; e < 4; ++e) row[i + e] = pack.v[e];
  }
  RingTaps<kInline> reader{taps};
#pragma unroll
  for (int u = 0; u < kCount; ++u) {
    const float tap = reader.at(u);
#pragma unroll
    for (int e = 0; e < kRingReuse; ++e) sums[e] = fmaf(tap, row[kSkip + e + u], kFirst && u == 0 ? 0.f : sums[e]);
  }
}

// Neighbouring outputs, read in quads.
template <bool kInline, int kTaps, int kSkip>
__device__ __forceinline__ void ring_quads(const float* from, const float* taps, float (&sums)[kRingReuse]) {
  constexpr int kBlocks = ring_blocks_of(kTaps);
  if constexpr (kBlocks > 0) {
#pragma unroll
    for (int e = 0; e < kRingReuse; ++e) sums[e] = 0;
#pragma unroll 1
    for (int b = 0; b < kBlocks; ++b, from += 16, taps += 16)
      ring_quad_taps<kInline, 16, kSkip, false>(from, taps, sums);
  }
  ring_quad_taps<kInline, ring_tail(kTaps), kSkip, kBlocks == 0>(from, taps, sums);
}

// Outputs kPitch numbers apart; slot(b) is where elements 16 b .. 16 b + 15 begin.
template <bool kInline, int kTaps, int kPitch, typename Slot>
__device__ __forceinline__ void ring_numbers(const float* taps, float (&sums)[kRingReuse], Slot slot) {
  constexpr int V = kRingReuse, kBlocks = ring_blocks_of(kTaps);
  float window[V];  // element e is window[e % V]
  const float* elements = slot(0);
#pragma unroll
  for (int v = 0; v < V - 1; ++v) window[v] = elements[v * kPitch];
  // Taps 0 .. kCount - 1 of the block that begins at element 0 of slot b; they need elements up to kCount + V - 2.
  const auto some = [&](auto count, auto first, int b) {
    constexpr int kCount = decltype(count)::value;
    const float* const next = slot(b + 1);
    const float* const last = kCount > V + 1 ? slot(b + 2) : nullptr;
    RingTaps<kInline> reader{taps};
#pragma unroll
    for (int u = 0; u < kCount; ++u) {
      const int e = u + V - 1;
      window[e % V] = (e < V ? elements : e < 2 * V ? next : last)[e % V * kPitch];
      const float tap = reader.at(u);
#pragma unroll
      for (int v = 0; v < V; ++v) sums[v] = fmaf(tap, window[(u + v) % V], first.value && u == 0 ? 0.f : sums[v]);
    }
    elements = next;
    taps += kCount;
  };
  if constexpr (kBlocks > 0) {
#pragma unroll
    for (int v = 0; v < V; ++v) sums[v] = 0;
#pragma unroll 1
    for (int b = 0; b < kBlocks; ++b) some(std::integral_constant<int, 16>{}, std::false_type{}, b);
  }
  some(std::integral_constant<int, ring_tail(kTaps)>{}, std::integral_constant<bool, kBlocks == 0>{}, kBlocks);
}

// Columns first_x .. first_x + kPitch - 1 of rows top .. top + rows - 1 of a plane into a box, zeros where there are
// none: warps take rows, lanes neighbours. All threads.
template <int kThreads, int kPitch>
__device__ __forceinline__ void copy_rows(float* box, const float* plane, int64_t stride_h, int top, int first_x,
                                          int rows, int h, int w) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool whole = first_x >= 0 && first_x + kPitch <= w;
#pragma unroll 1
  for (int r = warp; r < rows; r += kThreads / 32) {
    const bool row = unsigned(top + r) < unsigned(h);
    const float* const from = plane + (row ? (top + r) * stride_h : 0);
    float* const to = box + r * kPitch;
    if (whole) {
      const float* const first = from + (first_x + lane);
#pragma unroll
      for (int i = 0; i < kPitch; i += 32)
        if (lane + i < kPitch) async_copy<4>(to + lane + i, first + i, row ? 4 : 0);
    } else {
#pragma unroll 1
      for (int i = lane; i < kPitch; i += 32) {
        const bool there = row && unsigned(first_x + i) < unsigned(w);
        async_copy<4>(to + i, there ? from + (first_x + i) : plane, there ? 4 : 0);
      }
    }
  }
}

// Border::zero_output: clears the sums of column x, from row y on, whose windows overlap the image's edge.
template <RingPolicy S>
__device__ __forceinline__ void clear_outside(const RingParams& p, int x, int y, float (&sums)[kRingReuse]) {
  const int left = x - p.pad_x;
  const bool fits_x = left >= 0 && left + (S.kw - 1) * S.pixel < p.planes.in_w;
#pragma unroll
  for (int v = 0; v < kRingReuse; ++v) {
    const int top = y + v - p.pad_y;
    if (!fits_x || !p.peers.inside(top, top + S.kh - 1, p.planes.in_h)) sums[v] = 0;
  }
}

template <RingPolicy S>
__global__ void __launch_bounds__(S.threads(), S.blocks())
    separable_ring(const __grid_constant__ RingParams p, const __grid_constant__ TensorMap map) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr int V = kRingReuse, kThreads = S.threads();
  extern __shared__ __align__(128) unsigned char shared[];
  float* const box = reinterpret_cast<float*>(shared);
  float* const ring = box + S.box();
  float* const shared_x = ring + S.ring();
  float* const shared_y = shared_x + S.taps_x();
  uint64_t* const full = reinterpret_cast<uint64_t*>(shared_x + S.taps());
  uint64_t* const read = full + 1;  // the column passes are done with the ring

  const TilePosition tile = p.order.at(blockIdx.x);
  const unsigned n = tile.n, c = tile.c;
  const int x0 = tile.x * S.width(), y0 = tile.y * p.steps * kRingRows;
  const int rows_out = min(p.steps * kRingRows, p.planes.out_h - y0);
  const int boxes = S.fill() + (rows_out + kRingRows - 1) / kRingRows;
  const int first_x = x0 - p.pad_x - S.skew, first_y = y0 - p.pad_y;
  const float* const plane = p.planes.in_plane<float>(n, c);

  // Rows of box i that outputs need, in whole pieces: the last boxes are not full.
  const auto needed = [&](int i) {
    const int rows = max(rows_out + S.kh - 1 - i * kRingRows, 0);
    return min(kRingRows, (rows + kRingPiece - 1) / kRingPiece * kRingPiece);
  };
  const auto load = [&](int i) {
    const int rows = needed(i), y = first_y + i * kRingRows;
    if constexpr (S.bulk) {
      if (threadIdx.x != 0) return;
      tma::barrier_expect(full, rows * S.pitch() * 4);
      for (int r = 0; r < rows; r += kRingPiece) tma::load_box(box + r * S.pitch(), &map, full, first_x, y + r, c, n);
    } else {
      copy_rows<kThreads, S.pitch()>(box, plane, p.planes.in_stride_h, y, first_x, rows, p.planes.in_h, p.planes.in_w);
      tma::barrier_arrive_copied(full);
    }
  };
  if (threadIdx.x == 0) {
    tma::barrier_init(full, S.bulk ? 1 : kThreads);
    tma::barrier_init(read, kThreads / 32 * kWarpArrivals);
  }
  if constexpr (!S.bulk) __syncthreads();
  load(0);
  if constexpr (!S.inline_taps) {
    for (int i = threadIdx.x; i < S.kw; i += kThreads) shared_x[i] = p.taps.of<float>(p.taps.x, n, c)[i];
    for (int i = threadIdx.x; i < S.kh; i += kThreads) shared_y[i] = p.taps.of<float>(p.taps.y, n, c)[i];
  }
  const float* const taps_x = S.inline_taps ? reinterpret_cast<const float*>(p.taps.bytes) : shared_x;
  const float* const taps_y =
      S.inline_taps ? reinterpret_cast<const float*>(p.taps.bytes + round_up(S.kw * 4, 16)) : shared_y;
  __syncthreads();

  // Row pass: eight neighbouring lanes read eight rows, whose pitches are odd multiples of 16 bytes, without bank
  // conflicts. So do the numbers of four channels; those of two or three channels have some conflicts.
  constexpr int kRowThreads = S.width() / V;
  const int eight = threadIdx.x / 8, segment = eight % kRowThreads, r = threadIdx.x % 8 + eight / kRowThreads * 8;
  const int column = segment / S.pixel * V * S.pixel + segment % S.pixel;
  const float* const row_from = box + r * S.pitch() + column + (S.pixel == 1 ? S.skew / 4 * 4 : S.skew);
  float* const row_to = ring + r * S.ring_pitch() + column;
  const int group = threadIdx.x / S.width(), across = threadIdx.x % S.width();  // of the column pass
  const float* const column_from = ring + across;
  const int x = x0 + across;
  float* const out = p.planes.out_plane<float>(n, c) + x;

  // Rows of boxes that are not read as they came: those above `whole_from` and below `whole_to`.
  const int width = min(S.width(), p.planes.out_w - x0) + (S.kw - 1) * S.pixel;
  const bool edge_x = x0 < p.pad_x || x0 - p.pad_x + width > p.planes.in_w;
  const bool policy = p.border != Border::zero_output && !p.zero_fill;
  const int whole_from = policy && edge_x ? INT_MAX : policy || p.peers.above.rows > 0 ? 0 : INT_MIN;
  const int whole_to = policy || p.peers.below.rows > 0 ? p.planes.in_h : INT_MAX;

  int oldest = 0;  // slot of the ring
  for (int i = 0; i < boxes; ++i) {
    const int step = i - S.fill(), top = first_y + i * kRingRows, rows_in = needed(i);
    tma::barrier_wait(full, i % 2);
    if (top < whole_from || top + rows_in > whole_to) {
      extend_box<kThreads>(SharedTile<float>{box + S.skew, S.pitch()}, {0, rows_in, 0, width}, {top, first_x + S.skew},
                           plane, p.planes.in_stride_h, p.planes.in_h, p.planes.in_w, p.border, p.value,
                           ShardRows{p.peers, n, c}, {S.pixel, S.pixel});
      if constexpr (S.bulk) tma::fence_before_copy();  // of the next box
      __syncthreads();
    }
    if (r < rows_in) {
      float sums[V];
      if constexpr (S.pixel == 1) ring_quads<S.inline_taps, S.kw, S.skew % 4>(row_from, taps_x, sums);
      else ring_numbers<S.inline_taps, S.kw, S.pixel>(taps_x, sums, [&](int b) { return row_from + b * V * S.pixel; });
      if (step > 0) tma::barrier_wait(read, (step - 1) % 2);
      float* const to = row_to + oldest * V * S.ring_pitch();
      if constexpr (S.pixel == 1) {
#pragma unroll
        for (int e = 0; e < V; e += 4)
          *reinterpret_cast<float4*>(to + e) = {sums[e], sums[e + 1], sums[e + 2], sums[e + 3]};
      } else {
#pragma unroll
        for (int e = 0; e < V; ++e) to[e * S.pixel] = sums[e];
      }
    }
    oldest = oldest + kRingGroups == S.slots() ? 0 : oldest + kRingGroups;
    __syncthreads();
    if (i + 1 < boxes) load(i + 1);
    if (step < 0) continue;

    float sums[V];
    ring_numbers<S.inline_taps, S.kh, S.ring_pitch()>(taps_y, sums, [&](int b) {
      const int slot = oldest + group + b;
      return column_from + (slot >= S.slots() ? slot - S.slots() : slot) * V * S.ring_pitch();
    });
    tma::warp_arrive(read);
    const int y = y0 + step * kRingRows + group * V, rows = p.planes.out_h - y;
    if (p.border == Border::zero_output) clear_outside<S>(p, x, y, sums);
    float* to = out + y * p.planes.out_stride_h;
    const auto store = [&](bool whole) {
#pragma unroll
      for (int v = 0; v < V; ++v, to += p.planes.out_stride_h)
        if (x < p.planes.out_w && (whole || v < rows)) *to = sums[v];
    };
    if (rows >= V) store(true);
    else store(false);
  }
#endif
}

}  // namespace torch_conv::separable2d
