// MMA_GENERAL: the bits of PLANES_MMA and of ROWS_MMA, with all sizes at run time.
//
// clang-format off
//     a step           D (16 outputs of a tile, 8 tiles) += A (16 x 16 taps) * B (16 pixels of a tile, 8 tiles)
//
//     PLANES_MMA  lead   8 columns          A tile is two rows of 8 outputs. Step s has the taps of window row s for the
//                +----+--------+----+       upper row of outputs, of row s - 1 for the lower row, and the 16 pixels of
//                |    | tile   |    |       input row s of the footprint.
//                +----+--------+----+
//     ROWS_MMA    16 pixels a step          A tile is 16 outputs. Step s has pixels 16 s .. 16 s + 15 of the footprint.
//                +------+------+------+     Steps start on 8 bytes of memory, tiles on 4: all rows of a channel agree.
//                |  w w w w w  |      |
//                +------+------+------+
// clang-format on
//
// An output has the same products in the same K slots of the same mma as in these variants, and therefore the same
// bits. The row of A and the column of B do not matter. Rows of zeros above and below an image leave a sum as it is.
//
// A block has one channel, whose taps are in shared memory as operands of mma, 16 bytes of a lane a step. A warp
// computes 8 tiles at a time, of any rows and images. Loads and mma of 128 outputs: PLANES_MMA kh + 1 mma, each with
// two loads of 4 bytes a lane from L1 and one of 16 from shared memory; ROWS_MMA one for every 16 pixels. Device memory
// an output: 1 read, 1 write.
//
// Chains of multiply-adds compute outputs again that are not finite (PLANES_MMA) or NaN (ROWS_MMA).
#pragma once

#include "core/cuda/mma.cuh"
#include "kernels/depthwise/mma_general/params.h"
#include "kernels/depthwise/shared/mma_general.cuh"

namespace torch_conv::depthwise {

namespace mma_general {

// The image and the upper left output of a tile, and the rows that the tile stores.
struct Tile {
  int n, y, x;
  int first_row, end_row;  // counted from y; no rows if there is no such tile

  __device__ __forceinline__ static Tile of(const MmaGeneralArgs& a, unsigned index, int odd) {
    if (index >= a.tiles) return {};
    const unsigned row = a.across.divide(index), strip_of_all = a.of_strip.divide(row);
    const unsigned n = a.strips.divide(strip_of_all);
    const int x = int(index - row * a.across.divisor) * a.order.tile_columns() - odd;
    const int down = int(row - strip_of_all * a.of_strip.divisor) * a.order.tile_rows;
    const int begin = int(strip_of_all - n * a.strips.divisor) * a.order.strip_rows;
    const int strip = min(begin, int(a.p.out.h) - a.order.strip_rows);
    return {int(n), strip + down, x, begin - strip - down, a.order.strip_rows - down};
  }
};

// The channel of a block.
struct Channel {
  int c;
  const uint16_t* in;
  uint16_t* out;
  const uint16_t* weight;
  int odd;   // columns from the first tile's first output to the plane's
  int lead;  // columns from a step's first pixel to a tile's first output

  __device__ __forceinline__ static Channel of(const MmaGeneralArgs& a, int c) {
    const Depthwise& p = a.p;
    const uint16_t* in = static_cast<const uint16_t*>(p.in.data) + c / p.multiplier() * p.in.stride_c;
    uint16_t* out = static_cast<uint16_t*>(p.out.data) + c * p.out.stride_c;
    const uint16_t* weight = static_cast<const uint16_t*>(p.weight) + c * p.kh * p.kw;
    if (a.order.tile_rows == 2) return {c, in, out, weight, 0, a.order.lead};
    const int odd = int(reinterpret_cast<uintptr_t>(out) / 2) & 1, pad = int(p.place.pad_x);
    const int shift = (int(reinterpret_cast<uintptr_t>(in) / 2) - odd - pad) & 3;
    return {c, in, out, weight, odd, pad + shift};
  }
};

// The pixel of a step in K slot 2 (lane % 4) + 8 half + e of this lane.
__device__ __forceinline__ int pixel_of(const MmaOrder& order, int q, int half) {
  return order.fours ? 4 * q + 2 * half : 2 * q + 8 * half;
}

// Writes the taps of all steps as the lanes' operands. Word r of a lane has the slots of half r / 2 for an output:
// number 2 g + r % 2 of one row, or number 2 (g % 4) + r % 2 of row g / 4 of two.
__device__ __forceinline__ void write_taps(const MmaGeneralArgs& a, const Channel& channel, uint4* taps) {
  const int kh = int(a.p.kh), kw = int(a.p.kw), shift = channel.lead - int(a.p.place.pad_x);
  for (int e = threadIdx.x; e < 32 * a.order.steps; e += 32 * kMmaGeneralWarps) {
    const int step = e / 32, q = e % 4, g = e % 32 / 4;
    const bool two = a.order.tile_rows == 2;
    const int i = two ? step - g / 4 : 0, first = two ? 0 : 16 * step;
    unsigned word[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int output = 2 * (two ? g % 4 : g) + r % 2;
      const int j = first + pixel_of(a.order, q, r / 2) - output - shift;
      word[r] = unsigned(i) < unsigned(kh) ? read_pair(channel.weight + i * kw, j, kw) : 0;
    }
    taps[e] = uint4{word[0], word[1], word[2], word[3]};
  }
}

// The sums of 8 tiles of mma: the steps of a lane's column.
template <typename T>
__device__ __forceinline__ void add_steps(const MmaGeneralArgs& a, const Channel& channel, const Tile& tile,
                                          const uint4* taps, float (&sum)[4]) {
  const Image& in = a.p.in;
  const int lane = threadIdx.x % 32, w = int(in.w), h = int(in.h);
  const bool two = a.order.tile_rows == 2;
  const int pixel[2] = {pixel_of(a.order, lane % 4, 0), pixel_of(a.order, lane % 4, 1)};
  // The last row of a strip may be alone in its tile, and then takes no pixels for a row below.
  const int steps = tile.end_row <= 0 ? 0 : two && tile.end_row == 1 ? a.order.steps - 1 : a.order.steps;
  int y = tile.y - int(a.p.place.pad_y), x = tile.x - channel.lead;
  const uint16_t* row = channel.in + tile.n * in.stride_n + y * in.stride_h;
#pragma unroll 2
  for (int step = 0; step < a.order.steps; ++step) {
    const int size = step < steps && unsigned(y) < unsigned(h) ? w : 0;
    const uint4 tap = taps[32 * step + lane];
    mma_add<T>(sum, {tap.x, tap.y, tap.z, tap.w}, read_pair(row, x + pixel[0], size),
               read_pair(row, x + pixel[1], size));
    if (two) ++y, row += in.stride_h;
    else x += 16;
  }
}

// Rounds and stores an output.
template <typename T>
__device__ __forceinline__ void store(const MmaGeneralArgs& a, const Channel& channel, int n, int y, int x, float sum,
                                      float bias) {
  const Depthwise& p = a.p;
  unsigned output = output_bits<T>(p.activation, sum + bias);
  const bool again = a.order.tile_rows == 2 ? !is_finite<T>(output) : is_nan<T>(output);
  if (again) output = output_bits<T>(p.activation, chain_sum<T>(p, n, channel.c, y, x) + bias);
  channel.out[n * p.out.stride_n + y * p.out.stride_h + x] = uint16_t(output);
}

}  // namespace mma_general

template <typename T>
__global__ void __launch_bounds__(32 * kMmaGeneralWarps)
    depthwise_mma_general(const __grid_constant__ MmaGeneralArgs a) {
  using namespace mma_general;
  __shared__ uint4 taps[32 * kMmaGeneralSteps];
  const unsigned c = blockIdx.x / a.blocks, block = blockIdx.x - c * a.blocks;
  const Channel channel = Channel::of(a, int(c));
  write_taps(a, channel, taps);
  __syncthreads();

  const int q = threadIdx.x % 4, g = threadIdx.x % 32 / 4;
  const int row = a.order.tile_rows == 2 ? g / 4 : 0, column = 2 * (a.order.tile_rows == 2 ? g % 4 : g);
  const float bias = bias_of<T>(a.p, c);
  const unsigned first = (block * kMmaGeneralWarps + threadIdx.x / 32) * (8 * kMmaGeneralGroups);
  for (unsigned at = first; at < first + 8 * kMmaGeneralGroups && at < a.tiles; at += 8) {
    float sum[4] = {};
    add_steps<T>(a, channel, Tile::of(a, at + g, channel.odd), taps, sum);
    // A lane has the outputs `column` and the next of two tiles.
#pragma unroll 1
    for (int e = 0; e < 4; ++e) {
      const Tile tile = Tile::of(a, at + 2 * q + e % 2, channel.odd);
      const int x = tile.x + column + e / 2;
      if (row >= tile.first_row && row < tile.end_row && unsigned(x) < unsigned(a.p.out.w))
        store<T>(a, channel, tile.n, tile.y + row, x,
                 e == 0   ? sum[0]
                 : e == 1 ? sum[1]
                 : e == 2 ? sum[2]
                          : sum[3],
                 bias);
    }
  }
}

}  // namespace torch_conv::depthwise
