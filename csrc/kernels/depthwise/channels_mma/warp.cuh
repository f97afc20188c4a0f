// CHANNELS_MMA: the sums and weights of a warp, and outputs that are computed again.
#pragma once

#include "core/cuda/tma.cuh"
#include "kernels/depthwise/channels_mma/params.h"
#include "kernels/depthwise/shared/mma.cuh"
#include "kernels/depthwise/shared/sparse_mma.cuh"

namespace torch_conv::depthwise {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

namespace channels_mma {

// The offset in a box, in bytes, of four channels (8 bytes) of a pixel.
template <int kChannels>
__device__ __forceinline__ unsigned offset_of(int pixel, int four) {
  static_assert(kChannels == 16 || kChannels == 32);
  const int turn = kChannels == 16 ? pixel >> 2 & 1 : pixel >> 1 & 3;
  return pixel * (2 * kChannels) + (((four >> 1) ^ turn) << 4) + (four & 1) * 8;
}

// A block of rows of outputs: image n, from column x and row y on.
struct OutPosition {
  int n, x, y;
};

// Computes the outputs that are NaN, or all outputs, of the four channels from `channel` on, in the rows of a block.
template <typename T, ChannelsMmaPolicy tile, Activation kind>
__device__ __noinline__ void recompute(const Depthwise& p, unsigned char* staging, OutPosition at, int channel,
                                       int four, bool all) {
  constexpr ChannelsMmaPolicy t = tile;
  constexpr int kInRow = t.images() * t.out_pitch();
  for (int i = threadIdx.x % 32; i < t.rows() * kInRow; i += 32) {
    const int row = i / kInRow, image = i % kInRow / t.out_pitch(), column = i % t.out_pitch();
    const int n = at.n + image, y = at.y + row, x = at.x + column;
    if (n >= p.out.n || y < 0 || y >= p.out.h || x >= p.out.w || column >= t.width()) continue;
    uint16_t* const staged = reinterpret_cast<uint16_t*>(staging + offset_of<t.channels>(i, four));
    for (int e = 0; e < 4 && channel + e < p.in.c; ++e) {
      if (!all && !is_nan<T>(staged[e])) continue;
      const int64_t c = channel + e;
      const T* plane = static_cast<const T*>(p.in.data) + n * p.in.stride_n + c * p.in.stride_c;
      const T* weight = static_cast<const T*>(p.weight) + c * t.kh * t.kw;
      float sum = 0;
      for (int tap = 0; tap < t.kh * t.kw; ++tap) {
        const int64_t from_y = y + tap / t.kw - p.place.pad_y, from_x = x + tap % t.kw - p.place.pad_x;
        const bool inside = from_y >= 0 && from_y < p.in.h && from_x >= 0 && from_x < p.in.w;
        sum = fmaf(to_acc<float>(weight[tap]),
                   inside ? to_acc<float>(plane[from_y * p.in.stride_h + from_x * p.in.stride_w]) : 0.f, sum);
      }
      const float bias = p.bias ? to_acc<float>(static_cast<const T*>(p.bias)[c]) : 0.f;
      staged[e] = from_acc<T>(activated<kind>(sum + bias)).bits;
    }
  }
}

// A warp's sums and weights. Lane 4 g + q holds output g of a tile, of columns 2 q and 2 q + 1. The lane loads slots 2
// q, 2 q + 1, 2 q + 8 and 2 q + 9 of column g.
template <typename T, ChannelsMmaPolicy tile, Activation kind>
struct WarpSums {
  static constexpr ChannelsMmaPolicy t = tile;
  static constexpr int kRows = t.rows(), kRowBytes = t.row_bytes();
  static constexpr unsigned kOnes = std::is_same_v<T, half_t> ? 0x3c003c00 : 0x3f803f80;

  unsigned weight[t.kh][2][4];  // of the two pairs of channels; the first row also holds the bias
  float sum[kRows][2][4];       // of output rows, by their first input row modulo kRows
  unsigned even, odd;           // offsets in a stage of this lane's slots 2 q and 2 q + 1
  unsigned to[2];               // offsets in a block of this lane's outputs
  bool writes[2];
  unsigned zero;
  unsigned output_bits;  // the OR of all words of outputs
  bool last_slot;        // this lane's last slot is number 15, outside all footprints: it is 1, for the bias
  // A weight of the block is not finite: rows outside the image take no mma, and would hide its NaN.
  bool weights_not_finite;

  // The block's weights and bias on their way into shared memory. All warps load at once, which hides the latency.
  struct Staged {
    static constexpr int kWindow = t.kh * t.kw, kCount = t.channels * kWindow;
    static constexpr int kRounds = (kCount + t.threads() - 1) / t.threads();
    uint16_t taps[kRounds], bias;

    __device__ __forceinline__ void load(const Depthwise& p, int channel) {
      const uint16_t* const from = static_cast<const uint16_t*>(p.weight) + int64_t(channel) * kWindow;
      const unsigned count = min(int(p.in.c) - channel, t.channels);
#pragma unroll
      for (int i = 0; i < kRounds; ++i) {
        const unsigned tap = threadIdx.x + i * t.threads();
        taps[i] = tap < count * kWindow ? from[tap] : 0;
      }
      bias = p.bias && threadIdx.x < count ? static_cast<const uint16_t*>(p.bias)[channel + threadIdx.x] : 0;
    }

    // True if a weight is not finite.
    __device__ __forceinline__ bool store(unsigned char* shared) const {
      static_assert(2 * (kCount + t.channels) <= ChannelsMmaPolicy::kOutBuffers * t.out_bytes());
      uint16_t* const to = reinterpret_cast<uint16_t*>(shared);
      bool found = false;
#pragma unroll
      for (int i = 0; i < kRounds; ++i) {
        const unsigned tap = threadIdx.x + i * t.threads();
        if (tap < kCount) to[tap] = taps[i];
        found = found || !is_finite<T>(taps[i]);
      }
      if (threadIdx.x < t.channels) to[kCount + threadIdx.x] = bias;
      return found;
    }
  };

  // `staged` is the memory that Staged::store has filled.
  __device__ __forceinline__ void start(const unsigned char* staged, unsigned hidden_zero) {
    const int lane = threadIdx.x % 32, q = lane & 3, g = lane >> 2, four = threadIdx.x / 32;
    zero = hidden_zero, output_bits = 0;
    last_slot = q == 3;
    const int column = g % t.columns(), slot = column / t.tiles * t.pitch() + column % t.tiles * t.kOutputs + 2 * q;
    even = offset_of<t.channels>(slot, four), odd = offset_of<t.channels>(slot + 1, four);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int n = 2 * q + e;
      to[e] = offset_of<t.channels>(n / t.tiles * t.out_pitch() + n % t.tiles * t.kOutputs + g, four);
      writes[e] = g < t.kOutputs && n < t.columns();
    }
    // The compiler keeps the result of a shuffle in a register. The compiler would compute other numbers again in every
    // step.
    even = __shfl_sync(~0u, even, lane), odd = __shfl_sync(~0u, odd, lane);
    to[0] = __shfl_sync(~0u, to[0], lane), to[1] = __shfl_sync(~0u, to[1], lane);
    const uint16_t* const all = reinterpret_cast<const uint16_t*>(staged);
    read_weights(all + 4 * four * Staged::kWindow, all + Staged::kCount + 4 * four, q, g);
  }

  __device__ __forceinline__ void read_weights(const uint16_t* windows, const uint16_t* bias, int q, int g) {
    const uint16_t* of[2][2];  // this lane's taps of a row, of both halves of the slots
    unsigned mask[2] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int j = 8 * half + 2 * q + e, i = j >> 2, tap = 2 * (j & 3) + (i & 1) + 8 * (i >> 1) - g;
        const bool inside = tap >= 0 && tap < t.kw && g < t.kOutputs;
        of[half][e] = windows + (inside ? tap : 0);
        if (inside) mask[half] |= 0xffffu << 16 * e;
      }
#pragma unroll
    for (int pair = 0; pair < 2; ++pair)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
#pragma unroll
        for (int ky = 0; ky < t.kh; ++ky)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int row = ((2 * pair + e) * t.kh + ky) * t.kw;
            weight[ky][pair][2 * half + e] = __byte_perm(of[half][0][row], of[half][1][row], 0x5410) & mask[half];
          }
        if (q == 3 && g < t.kOutputs) weight[0][pair][2 + e] |= unsigned(bias[2 * pair + e]) << 16;
      }
  }

  // Before the first row of an image, the sums are the bias.
  __device__ __forceinline__ void clear() {
    const unsigned above[4] = {zero, zero, zero, last_slot ? kOnes : zero};
    const float none[4] = {};
    if constexpr (t.kh > 1) {
      float start[2][4];
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) sparse_mma<T>(start[pair], none, weight[0][pair], above);
#pragma unroll
      for (int row = kRows - (t.kh - 1); row < kRows; ++row)
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[row][i / 4][i % 4] = start[i / 4][i % 4];
    }
  }

  // Adds the rows of a stage from `first` on. `finishes`: the output rows that they finish go into `staging`. Else they
  // add only to output rows that start here.
  template <int first, bool finishes>
  __device__ __forceinline__ void rows(unsigned stage, unsigned staging) {
    const float none[4] = {};
    unsigned loaded[2][4];
    load(loaded, stage + first * kRowBytes);
#pragma unroll
    for (int row = first; row < kRows; ++row) {
      // The xor with a run-time zero moves each word to its operand register once. ptxas would copy all four for every
      // mma: 16 % of the time of a prototype, 7x7, on one NVIDIA H200.
      unsigned pixels[2][4];
#pragma unroll
      for (int i = 0; i < 8; ++i)
        pixels[i / 4][i % 4] = i % 4 < 3 ? loaded[i / 4][i % 4] ^ zero : last_slot ? kOnes : loaded[i / 4][i % 4];
      if (row < kRows - 1) load(loaded, stage + (row + 1) * kRowBytes);
#pragma unroll
      for (int ky = t.kh - 1; ky > 0; --ky)
#pragma unroll
        for (int pair = 0; pair < 2; ++pair)
          if (finishes || row - ky >= first)
            sparse_mma<T>(sum[(row - ky + kRows) % kRows][pair], sum[(row - ky + kRows) % kRows][pair],
                          weight[ky][pair], pixels[pair]);
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) sparse_mma<T>(sum[row][pair], none, weight[0][pair], pixels[pair]);
      if constexpr (finishes) finish(row, sum[(row + 1 - t.kh + kRows) % kRows], staging);
    }
  }

  // After the last row of an image: finishes the output rows whose footprint ends in the padding.
  __device__ __forceinline__ void last_rows(unsigned staging) {
#pragma unroll
    for (int row = 0; row < t.kh - 1; ++row) finish(row, sum[(row + 1 - t.kh + kRows) % kRows], staging);
  }

  // True if an input since the last call is not finite.
  __device__ __forceinline__ bool needs_recompute() {
    const bool any = __any_sync(~0u, threadIdx.x % 32 >= 4 * t.kOutputs && (output_bits & 0x7fff7fff));
    output_bits = 0;
    return any || weights_not_finite;
  }

  __device__ __forceinline__ void load(unsigned (&to)[2][4], unsigned row) {
    load_both(to[0][0], to[1][0], row + even);
    load_both(to[0][1], to[1][1], row + odd);
    load_both(to[0][2], to[1][2], row + even + 8 * t.pixel_bytes());
    load_both(to[0][3], to[1][3], row + odd + 8 * t.pixel_bytes());
  }

  __device__ __forceinline__ void finish(int row, const float (&of)[2][4], unsigned staging) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      unsigned words[2];
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) words[pair] = output_pair<T, kind>(of[pair][e], of[pair][2 + e]);
      store_both_if(writes[e], staging + to[e] + row * t.out_row_bytes(), words[0], words[1]);
      output_bits |= words[0] | words[1];
    }
  }
};

}  // namespace channels_mma

#endif

}  // namespace torch_conv::depthwise
