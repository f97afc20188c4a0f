// LARGE_MMA_GENERAL: the bits of LARGE_MMA, with all sizes at run time.
//
// clang-format off
//        one input row of M = 16 outputs' rows          one window row, as a band              outputs
//        k: 16 columns (a pair of blocks)               n: 8 output columns                    16 x 8
//     +-----------------------------+                +------------------+                   +---------+
//     | image 0, row u              |              k | w[j-1] w[j-2] .. |                   | image 0 |
//  16 | image 0, row u + 1          |      x         | w[j]   w[j-1] .. |        +=         | row y   |
//     | ...                         |                | w[j+1] w[j]   .. |                   | ...     |
//     +-----------------------------+                +------------------+                   +---------+
// clang-format on
//
// An output adds window rows in order, and for each the pairs of blocks of pixels from left to right, by the mma of 16
// or of 8 columns that LARGE_MMA takes. Therefore it has the same bits. The row of M does not matter. Rows of zeros
// above and below an image leave a sum as it is.
//
// A block has one channel, whose taps are in shared memory as operands: a word of a lane for each window row and span.
// A warp computes tiles of 16 rows and 4 blocks of columns. A window row of a tile takes spans / 2 + 2 loads of 16
// bytes a lane from L1, and 2 spans mma. Device memory an output: 1 read, 1 write.
//
// Chains of multiply-adds compute outputs again whose sum is not finite, and all outputs of order.channels channels if
// one of their taps is not finite.
#pragma once

#include "core/cuda/mma.cuh"
#include "kernels/depthwise/large_mma_general/params.h"
#include "kernels/depthwise/shared/mma_general.cuh"

namespace torch_conv::depthwise {

namespace large_mma_general {

// Writes the taps as the lanes' operands: word d of window row i has slots 2q and 2q + 1 of span d for output g.
__device__ __forceinline__ void write_taps(const LargeMmaGeneralArgs& a, int c, unsigned* taps) {
  const int kh = int(a.p.kh), kw = int(a.p.kw), spans = a.order.spans;
  const uint16_t* const weight = static_cast<const uint16_t*>(a.p.weight) + int64_t(c) * kh * kw;
  for (int e = threadIdx.x; e < kh * spans * 32; e += 32 * kLargeGeneralWarps) {
    const int row = e / 32, i = row / spans, d = row - i * spans;
    taps[e] = read_pair(weight + i * kw, 8 * d + 2 * (e % 4) - e % 32 / 4 - a.order.shift, kw);
  }
}

// True if a tap of the channels that are computed together with channel c is not finite.
template <typename T>
__device__ __forceinline__ bool any_not_finite(const LargeMmaGeneralArgs& a, int c) {
  const int window = int(a.p.kh * a.p.kw), first = c / a.order.channels * a.order.channels;
  const int count = min(a.order.channels, int(a.p.out.c) - first) * window;
  bool found = false;
  for (int i = threadIdx.x; i < count; i += 32 * kLargeGeneralWarps)
    found = found || !is_finite<T>(static_cast<const uint16_t*>(a.p.weight)[int64_t(first) * window + i]);
  return __syncthreads_or(found);
}

// A row of outputs: an image and a row of it, or none.
struct Row {
  int64_t n;
  int y;
  bool exists;

  __device__ __forceinline__ static Row of(const LargeMmaGeneralArgs& a, unsigned index) {
    const unsigned n = a.plane.divide(index);
    return {n, int(index - n * a.plane.divisor), index < a.rows};
  }
};

// Adds window row i to the sums of 16 rows and of the blocks of outputs from `block` on. A lane has two of the rows.
template <typename T>
__device__ __forceinline__ void add_row(const LargeMmaOrder& order, const uint16_t* const (&pixels)[2],
                                        const int (&size)[2], int block, const unsigned* taps,
                                        float (&sum)[kLargeGeneralBlocks][4]) {
  const int lane = threadIdx.x % 32, unit = 2 * order.pair_stride, first = block - order.ahead;
  const int end = min(order.units, (first + kLargeGeneralBlocks - 1 + order.spans + unit - 1) / unit);
  for (int u = max(0, first) / unit; u < end; ++u)
    for (int one = u * unit; one < u * unit + order.pair_stride; ++one) {
      const int two = one + order.pair_stride, q = lane % 4;
      const unsigned v[4] = {
          read_pair(pixels[0], 8 * one + 2 * q, size[0]), read_pair(pixels[1], 8 * one + 2 * q, size[1]),
          read_pair(pixels[0], 8 * two + 2 * q, size[0]), read_pair(pixels[1], 8 * two + 2 * q, size[1])};
#pragma unroll
      for (int t = 0; t < kLargeGeneralBlocks; ++t) {
        const int d = one - first - t, e = two - first - t;
        const bool has_one = unsigned(d) < unsigned(order.spans), has_two = unsigned(e) < unsigned(order.spans);
        const unsigned b = has_one ? taps[32 * d + lane] : 0, c = has_two ? taps[32 * e + lane] : 0;
        if (has_one && has_two) mma_add<T>(sum[t], v, b, c);
        else if (has_one) mma_add<T>(sum[t], v[0], v[1], b);
        else if (has_two) mma_add<T>(sum[t], v[2], v[3], c);
      }
    }
}

}  // namespace large_mma_general

template <typename T>
__global__ void __launch_bounds__(32 * kLargeGeneralWarps)
    depthwise_large_mma_general(const __grid_constant__ LargeMmaGeneralArgs a) {
  using namespace large_mma_general;
  __shared__ unsigned taps[kLargeGeneralWindow * kLargeGeneralSpans * 32];
  const Depthwise& p = a.p;
  const unsigned c = blockIdx.x / a.blocks, part = blockIdx.x - c * a.blocks;
  write_taps(a, int(c), taps);
  const bool all_again = any_not_finite<T>(a, int(c));
  const uint16_t* const plane = static_cast<const uint16_t*>(p.in.data) + int(c) / int(p.multiplier()) * p.in.stride_c;
  uint16_t* const out = static_cast<uint16_t*>(p.out.data) + c * p.out.stride_c;
  const int q = threadIdx.x % 4, g = threadIdx.x % 32 / 4;
  const float bias = bias_of<T>(p, c);

  const unsigned first = (part * kLargeGeneralWarps + threadIdx.x / 32) * kLargeGeneralTiles;
  for (unsigned tile = first; tile < first + kLargeGeneralTiles && tile < a.tiles; ++tile) {
    const unsigned down = a.across.divide(tile);
    const int block = int(tile - down * a.across.divisor) * kLargeGeneralBlocks;
    const Row rows[2] = {Row::of(a, 16 * down + g), Row::of(a, 16 * down + g + 8)};
    float sum[kLargeGeneralBlocks][4] = {};
    for (int i = 0; i < int(p.kh); ++i) {
      const uint16_t* pixels[2];
      int size[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t y = rows[half].y + i - p.place.pad_y;
        pixels[half] = plane + rows[half].n * p.in.stride_n + y * p.in.stride_h;
        size[half] = rows[half].exists && y >= 0 && y < p.in.h ? int(p.in.w) : 0;
      }
      add_row<T>(a.order, pixels, size, block, taps + i * a.order.spans * 32, sum);
    }
    // A lane has outputs 2q and 2q + 1 of two rows of every block.
#pragma unroll
    for (int e = 0; e < 4 * kLargeGeneralBlocks; ++e) {
      const Row& row = rows[e / 2 % 2];
      const int x = 8 * (block + e / 4) + 2 * q + e % 2;
      float value = sum[e / 4][e % 4];
      if (!row.exists || x >= int(p.out.w)) continue;
      if (all_again || value * 0.f != 0) value = chain_sum<T>(p, row.n, c, row.y, x);
      out[row.n * p.out.stride_n + row.y * p.out.stride_h + x] = uint16_t(output_bits<T>(p.activation, value + bias));
    }
  }
}

}  // namespace torch_conv::depthwise
