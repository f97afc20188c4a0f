// ROWS_MMA: long windows along rows as banded matrices on tensor cores, from device memory straight to registers.
//
// clang-format off
//       positions   0      16     32     48             A row is cut into segments of kTiles tiles of 16 outputs. 8
//     outputs 0 +------+------+------+                  segments, of one row or of several images' rows of the same
//             |w w w w w      |      |   A: the window, channel, are the columns of B.
//             |  w w w w w    |      |   16 outputs x   +--+--+--   B: 16 positions x 8 segments, in the layout of
//             |    w w w w w  |      |   kBlocks blocks |  |  |        memory: 8 bytes of a lane are the 4 positions of
//          15 +------+------+------+     of 16 positions|  |  |        its k slots
//                                                       +--+--+--
// clang-format on
//
// Row m of A is output 2m for m < 8 and 2 (m - 8) + 1 above. So a lane's two sums of a segment are neighbours, which
// one 32-bit store takes. k slots 2q, 2q+1, 2q+8, 2q+9 are positions 4q .. 4q+3. Blocks begin where the row's memory is
// aligned to 8 bytes, `shift` positions before the first tap of a tile's first output. The band is shifted by as many.
// Rows have any alignment, equal for all rows of a warp.
//
// Per 128 outputs: kBlocks mma, (kTiles + kBlocks - 1) / kTiles loads of 8 bytes a lane, 2 stores of 4 bytes.
// Device memory an output: 1 read, 1 write. A product of zero and a number that is not finite is NaN. A chain of
// multiply-adds computes outputs that are NaN again.
#pragma once

#include "core/cuda/device.cuh"
#include "kernels/depthwise/rows_mma/params.h"
#include "kernels/depthwise/shared/mma.cuh"

namespace torch_conv::depthwise {

namespace rows_mma {

// The image of a segment, and the position of its first output in an aligned row.
struct Segment {
  int64_t n;
  int x;
};

template <int kTiles>
__device__ __forceinline__ Segment segment_of(const RowsMmaArgs& a, uint32_t column) {
  const uint32_t n = a.segments.divide(column);
  return {n, int(column - n * a.segments.divisor) * (16 * kTiles)};
}

// Four positions from `at` on, with zeros outside the row.
template <typename T>
__device__ __forceinline__ uint2 load_masked(const T* row, int at, int size) {
  uint32_t part[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) part[i] = unsigned(at + i) < unsigned(size) ? row[at + i].bits : 0;
  return make_uint2(part[0] | part[1] << 16, part[2] | part[3] << 16);
}

// Computes the outputs of [x, x + 2) in a row that are NaN, as chains.
template <typename T, Activation kind>
__device__ __noinline__ void recompute(const T* in, T* out, const T* weight, float bias, int x, int in_w, int out_w,
                                       int pad, int k) {
  for (int e = 0; e < 2; ++e, ++x) {
    if (unsigned(x) >= unsigned(out_w)) continue;
    const float value = to_acc<float>(out[x]);
    if (value == value) continue;
    float sum = 0;
    for (int i = 0; i < k; ++i) {
      const int at = x + i - pad;
      sum = fmaf(to_acc<float>(weight[i]), unsigned(at) < unsigned(in_w) ? to_acc<float>(in[at]) : 0.f, sum);
    }
    out[x] = from_acc<T>(activated<kind>(sum + bias));
  }
}

// Loads the blocks of kSets segments, the first of which is segment `first` + g. Returns zeros outside the rows.
template <int kBlocks, int kTiles, int kSets, typename T>
__device__ __forceinline__ void load_blocks(const RowsMmaArgs& a, const T* in, uint32_t first, int begin, int g, int q,
                                            uint2 (&data)[kSets][kTiles + kBlocks - 1]) {
  constexpr int kLoads = kTiles + kBlocks - 1;
  const bool ragged = (begin | a.in_w) & 3;  // vectors may cross the ends of a row
  // Only the blocks at the ends of a segment may cross the ends of the row.
#pragma unroll
  for (int i = 0; i < kSets; ++i) {
    const uint32_t column = first + 8 * i + g;
    const Segment s = segment_of<kTiles>(a, column);
    const int at = begin + s.x + 4 * q;
    const T* const row = in + s.n * a.in_stride_n;
    const int size = column < a.columns ? a.in_w : 0;
    const auto load = [&](int b) {
      const int p = at + 16 * b;
      data[i][b] = p >= 0 && p + 4 <= size ? *reinterpret_cast<const uint2*>(row + at + 16 * b) : make_uint2(0, 0);
    };
    constexpr int kLow = kBlocks - 1, kHigh = kTiles;  // blocks in [kLow, kHigh) belong to no other segment
    const bool inside = kLow < kHigh && at + 16 * kLow >= 0 && at + 16 * (kHigh - 1) + 4 <= size;
    if (__all_sync(~0u, inside)) {
#pragma unroll
      for (int b = 0; b < kLoads; ++b) {
        if (b < kLow || b >= kHigh) load(b);
        else data[i][b] = *reinterpret_cast<const uint2*>(row + at + 16 * b);
      }
    } else {
#pragma unroll
      for (int b = 0; b < kLoads; ++b) load(b);
    }
    if (ragged) {
      // Only these vectors cross the ends of the row.
      const auto patch = [&](int p) {
        const int by = p - at;
        if (by % 16 != 0 || by < 0 || by >= 16 * kLoads) return;
        const uint2 part = load_masked(row, p, size);
#pragma unroll
        for (int b = 0; b < kLoads; ++b)
          if (by == 16 * b) data[i][b] = part;
      };
      patch((begin & 3) - 4);
      patch(size - ((size - begin) & 3));
    }
  }
}

}  // namespace rows_mma

// kBlocks blocks of 16 positions are the footprint of a tile. A segment has kTiles tiles, a warp kSets sets of 8
// segments.
template <typename T, int kBlocks, int kTiles, int kSets, Activation kind>
__global__ void __launch_bounds__(32 * kRowsMmaWarps, 1) depthwise_rows_mma(const __grid_constant__ RowsMmaArgs a) {
  using namespace rows_mma;
  const uint32_t warp = blockIdx.x * kRowsMmaWarps + threadIdx.x / 32;
  if (warp >= a.warps) return;
  const int lane = threadIdx.x % 32, q = lane % 4, g = lane / 4;

  // The warp's channel, and the first of its columns.
  const uint32_t slow = a.fastest.divide(warp), fast = warp - slow * a.fastest.divisor;
  const uint32_t c = a.channels_first ? fast : slow;
  const uint32_t first = (a.channels_first ? slow : fast) * (8 * kSets);
  const T* const in = static_cast<const T*>(a.in) + a.multiplier.divide(c) * a.in_stride_c;
  T* const out = static_cast<T*>(a.out) + c * a.out_stride_c;
  const T* const weight = static_cast<const T*>(a.weight) + int64_t(c) * a.k;

  // Tiles begin on 4 bytes of the output, blocks on 8 of the input. All rows of the channel agree.
  const int odd = int(reinterpret_cast<uintptr_t>(out) / 2) & 1;
  const int shift = (int(reinterpret_cast<uintptr_t>(in) / 2) - odd - a.pad) & 3;
  const int begin = -odd - a.pad - shift;  // position of the first block of a row's first tile

  uint2 data[kSets][kTiles + kBlocks - 1];
  load_blocks<kBlocks, kTiles>(a, in, first, begin, g, q, data);

  uint32_t band[kBlocks][4];
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    uint32_t tap[5];  // from the one before the first of output 2 g on
    const int j = 16 * b + 4 * q - 2 * g - shift - 1;
#pragma unroll
    for (int i = 0; i < 5; ++i) tap[i] = unsigned(j + i) < unsigned(a.k) ? weight[j + i].bits : 0;
    band[b][0] = tap[1] | tap[2] << 16;
    band[b][1] = tap[0] | tap[1] << 16;
    band[b][2] = tap[3] | tap[4] << 16;
    band[b][3] = tap[2] | tap[3] << 16;
  }
  const float bias = a.bias ? to_acc<float>(static_cast<const T*>(a.bias)[c]) : 0.f;

  float not_finite = 0;  // NaN after a sum that is not finite
#pragma unroll
  for (int i = 0; i < kSets; ++i) {
    T* to[2];
    int x[2], size[2];
    bool inside = true;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint32_t column = first + 8 * i + 2 * q + h;
      const Segment s = segment_of<kTiles>(a, column);
      x[h] = s.x - odd + 2 * g;
      to[h] = out + (s.n * a.out_stride_n + x[h]);
      size[h] = column < a.columns ? a.out_w : 0;
      inside = inside && x[h] >= 0 && x[h] + 16 * (kTiles - 1) + 2 <= size[h];
    }
    const auto tile = [&](int t, auto&& store) {
      float sum[4] = {};
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) mma_add<T>(sum, band[b], data[i][t + b].x, data[i][t + b].y);
#pragma unroll
      for (int e = 0; e < 4; ++e) not_finite = fmaf(sum[e], 0.f, not_finite);
#pragma unroll
      for (int h = 0; h < 2; ++h) store(h, output_pair<T, kind>(sum[h] + bias, sum[2 + h] + bias));
    };
    if (__all_sync(~0u, inside)) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
        tile(t, [&](int h, uint32_t word) { *reinterpret_cast<uint32_t*>(to[h] + 16 * t) = word; });
    } else {
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
        tile(t, [&](int h, uint32_t word) {
          const int p = x[h] + 16 * t;
          T* const at = to[h] + 16 * t;
          const bool low = unsigned(p) < unsigned(size[h]), high = unsigned(p + 1) < unsigned(size[h]);
          store_pack_if<1>(low && high, reinterpret_cast<uint32_t*>(at), Pack<1, uint32_t>{{word}});
          if (low != high) at[high] = T{uint16_t(high ? word >> 16 : word)};
        });
    }
  }

  if (not_finite == not_finite) return;
#pragma unroll 1
  for (int i = 0; i < 2 * kSets; ++i) {
    const uint32_t column = first + i / 2 * 8 + 2 * q + i % 2;
    if (column >= a.columns) continue;
    const Segment s = segment_of<kTiles>(a, column);
#pragma unroll 1
    for (int t = 0; t < kTiles; ++t)
      recompute<T, kind>(in + s.n * a.in_stride_n, out + s.n * a.out_stride_n, weight, bias, s.x - odd + 2 * g + 16 * t,
                         a.in_w, a.out_w, a.pad, a.k);
  }
}

}  // namespace torch_conv::depthwise
