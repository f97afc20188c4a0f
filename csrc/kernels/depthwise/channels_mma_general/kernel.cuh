// CHANNELS_MMA_GENERAL: the bits of CHANNELS_MMA, with all sizes at run time.
//
// clang-format off
//     slots of a tile     0 1 2 3 4 5 6 7 8 9 .. 15          A tile is 7 outputs of a row. Its 16 slots are the
//     pixels (c0, c1)     # # # # # # # # # # .. 1           pixels of their footprint, of a pair of channels. Slot 15
//     output 0, window 7  w w w w w w w            b         is outside all footprints: it holds 1, and its weight in
//     output 1              w w w w w w w          b         window row 0 is the bias.
//     ...
//     output 7 (none)                                        A window row is one sparse mma of 7 outputs of 2 channels
//                                                            in 8 tiles.
// clang-format on
//
// An output has the same weights and pixels in the same K slots of the same mma as in CHANNELS_MMA, and therefore the
// same bits. This holds for pixels of weight 0 too. Only the column of a tile is another one.
//
// A block has 16 channels, 8 tiles of any images and 8 rows of outputs; a warp has two pairs of channels. Shared memory
// holds the weights as operands of mma, in 16 bytes of a lane a window row and pair. A row of 224 outputs takes KH * 2
// mma, KH * 4 loads of 8 bytes a lane from L1 and KH * 2 of 16 bytes from shared memory. Device memory an output: 1
// read, 1 write.
//
// Chains of multiply-adds compute outputs again that are NaN, and all outputs of `together` channels if one of their
// weights is not finite: rows outside the image take no mma.
#pragma once

#include "kernels/depthwise/channels_mma_general/params.h"
#include "kernels/depthwise/shared/mma_general.cuh"
#include "kernels/depthwise/shared/sparse_mma.cuh"

namespace torch_conv::depthwise {

namespace channels_mma_general {

// Writes a warp's weights, of four channels from `channel` on. Word r of a lane has output g of channel r % 2 of the
// pair, and the slots of half r / 2.
__device__ __forceinline__ void write_weights(const Depthwise& p, int channel, uint4* weights) {
  const int kh = int(p.kh), kw = int(p.kw), lane = threadIdx.x % 32, q = lane % 4, g = lane / 4;
  const uint16_t* const all = static_cast<const uint16_t*>(p.weight);
  const uint16_t* const bias = static_cast<const uint16_t*>(p.bias);
  for (int row = 0; row < 2 * kh; ++row) {
    const int ky = row / 2, pair = row % 2;
    unsigned word[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int c = channel + 2 * pair + r % 2;
      const bool exists = c < int(p.out.c) && g < kChannelsGeneralOutputs;
      word[r] = 0;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int j = 8 * (r / 2) + 2 * q + e, slot = 2 * (j % 4) + j / 4 % 2 + 8 * (j / 8), tap = slot - g;
        if (exists && unsigned(tap) < unsigned(kw))
          word[r] |= unsigned(all[(int64_t(c) * kh + ky) * kw + tap]) << 16 * e;
        if (exists && slot == 15 && ky == 0 && bias) word[r] |= unsigned(bias[c]) << 16 * e;
      }
    }
    weights[32 * row + lane] = uint4{word[0], word[1], word[2], word[3]};
  }
}

// True if a weight of the channels that are computed together with `channel` is not finite.
template <typename T>
__device__ __forceinline__ bool any_not_finite(const ChannelsMmaGeneralArgs& a, int channel) {
  const Depthwise& p = a.p;
  const int window = int(p.kh * p.kw), first = channel / a.together * a.together;
  const int count = min(a.together, int(p.out.c) - first) * window;
  bool found = false;
  for (int i = threadIdx.x; i < count; i += 32 * kChannelsGeneralWarps)
    found = found || !is_finite<T>(static_cast<const uint16_t*>(p.weight)[int64_t(first) * window + i]);
  return __syncthreads_or(found);
}

// Four channels of a pixel from `channel` on, with zeros outside the images.
__device__ __forceinline__ uint2 read_channels(const Image& in, int n, int y, int x, int channel) {
  const bool inside = unsigned(y) < unsigned(in.h) && unsigned(x) < unsigned(in.w);
  const int left = n < int(in.n) && inside ? int(in.c) - channel : 0;
  const uint16_t* const from =
      static_cast<const uint16_t*>(in.data) + n * in.stride_n + y * in.stride_h + x * in.stride_w + channel;
  if (left >= 4) return *reinterpret_cast<const uint2*>(from);
  return {read_pair(from, 0, left), read_pair(from, 2, left)};
}

// A tile, which is a column of an mma: its image, and the columns of its first output in the image and in its segment.
struct Tile {
  int n, x, of_segment;
  bool exists;

  __device__ __forceinline__ static Tile of(const ChannelsMmaGeneralArgs& a, unsigned index) {
    const unsigned n = a.across.divide(index);
    const int x = int(index - n * a.across.divisor) * kChannelsGeneralOutputs;
    return {int(n), x, x % (a.slots.tiles * kChannelsGeneralOutputs), index < a.tiles};
  }

  // The pixel of a slot in input row y.
  __device__ __forceinline__ uint2 read(const ChannelsMmaGeneralArgs& a, int y, int slot, int channel) const {
    if (of_segment + slot >= a.slots.pitch) return read_beyond(a, y, slot, channel);
    return read_channels(a.p.in, n, y, x - int(a.p.place.pad_x) + slot, channel);
  }

  // The same of a slot behind the image's row: a pixel of the next image, of the next row, or none.
  __device__ __noinline__ uint2 read_beyond(const ChannelsMmaGeneralArgs& a, int y, int slot, int channel) const {
    int at = of_segment + slot, image = n % a.slots.images;
    const int group = n - image, left = x - int(a.p.place.pad_x) - of_segment;
    for (; at >= a.slots.pitch; at -= a.slots.pitch) ++image;
    if (image >= a.slots.images) {
      if (y % a.slots.rows == a.slots.rows - 1) return {0, 0};
      image -= a.slots.images, ++y;
    }
    return read_channels(a.p.in, group + image, y, left + at, channel);
  }
};

// The sums of output row y of 8 tiles, for two pairs of channels.
template <typename T>
__device__ __forceinline__ void add_rows(const ChannelsMmaGeneralArgs& a, const Tile& tile, int y, int channel,
                                         const uint4* weights, float (&sum)[2][4]) {
  constexpr unsigned kOnes = std::is_same_v<T, half_t> ? 0x3c003c00 : 0x3f803f80;
  const int lane = threadIdx.x % 32, q = lane % 4;
  for (int ky = 0; ky < int(a.p.kh); ++ky) {
    const int from = y + ky - int(a.p.place.pad_y);
    const bool inside = unsigned(from) < unsigned(a.p.in.h);
    if (!inside && ky > 0) continue;
    unsigned pixels[2][4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int slot = 2 * q + r % 2 + 8 * (r / 2);
      uint2 both{0, 0};
      if (slot == 15) both = {kOnes, kOnes};
      else if (tile.exists && inside) both = tile.read(a, from, slot, channel);
      pixels[0][r] = both.x, pixels[1][r] = both.y;
    }
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      const uint4 w = weights[32 * (2 * ky + pair) + lane];
      const float before[4] = {sum[pair][0], sum[pair][1], sum[pair][2], sum[pair][3]};
      sparse_mma<T>(sum[pair], before, {w.x, w.y, w.z, w.w}, pixels[pair]);
    }
  }
}

}  // namespace channels_mma_general

template <typename T>
__global__ void __launch_bounds__(32 * kChannelsGeneralWarps)
    depthwise_channels_mma_general(const __grid_constant__ ChannelsMmaGeneralArgs a) {
  using namespace channels_mma_general;
  extern __shared__ __align__(16) uint4 channels_general_weights[];
  const Depthwise& p = a.p;
  const unsigned part = a.chunks.divide(blockIdx.x), group = a.rows.divide(part);
  const int warp = threadIdx.x / 32, q = threadIdx.x % 4, g = threadIdx.x % 32 / 4;
  const int channel = int(blockIdx.x - part * a.chunks.divisor) * kChannelsGeneralChannels + 4 * warp;
  uint4* const weights = channels_general_weights + warp * (2 * int(p.kh) * 32);
  write_weights(p, channel, weights);
  const bool all_again = any_not_finite<T>(a, channel);
  if (channel >= int(p.out.c)) return;

  const int first = int(part - group * a.rows.divisor) * kChannelsGeneralRows;
  for (int y = first; y < first + kChannelsGeneralRows && y < int(p.out.h); ++y) {
    float sum[2][4] = {};
    add_rows<T>(a, Tile::of(a, 8 * group + g), y, channel, weights, sum);
    // A lane has output g of two tiles and four channels.
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const Tile tile = Tile::of(a, 8 * group + 2 * q + e / 4);
      const int x = tile.x + g, c = channel + e % 4;
      if (!tile.exists || g == kChannelsGeneralOutputs || x >= int(p.out.w) || c >= int(p.out.c)) continue;
      unsigned output = output_bits<T>(p.activation, sum[e / 2 % 2][2 * (e % 2) + e / 4]);
      if (all_again || is_nan<T>(output))
        output = output_bits<T>(p.activation, chain_sum<T>(p, tile.n, c, y, x) + bias_of<T>(p, c));
      static_cast<uint16_t*>(p.out.data)[tile.n * p.out.stride_n + y * p.out.stride_h + x * p.out.stride_w + c] =
          uint16_t(output);
    }
  }
}

}  // namespace torch_conv::depthwise
