// The parts of MMA: scales and bands of taps, and the two passes over tiles.
#pragma once

#include "core/cuda/matrices.cuh"
#include "core/cuda/mma.cuh"
#include "core/cuda/round_pair.cuh"
#include "kernels/separable2d/mma/params.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

namespace torch_conv::separable2d::mma {

// ---- Taps -----------------------------------------------------------------------------------------------------------

// Powers of two: of the taps, of the sums between the passes, of the outputs.
struct Scales {
  float x, y, between, back;
  bool wild;  // a tap is not finite, or the taps are too large or small to scale
};

__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float(unsigned(127 + min(max(exponent, -126), 127)) << 23);
}

// The exponent of a number that is not negative.
__device__ __forceinline__ int exponent_of(float v) { return int(__float_as_uint(v) >> 23) - 127; }

template <typename T>
__device__ __forceinline__ Scales scales_of(const float* taps_x, int kw, const float* taps_y, int kh) {
  static_assert(kBandMost < 64);
  const int lane = threadIdx.x % 32;
  const auto size = [&](const float* taps, int count, int i) { return i < count ? fabsf(taps[i]) : 0.f; };
  const float y0 = size(taps_y, kh, lane), y1 = size(taps_y, kh, lane + 32);
  const float x0 = size(taps_x, kw, lane), x1 = size(taps_x, kw, lane + 32);
  // The bits of non-negative floats, read as integers, have the order of the floats; NaN is the largest.
  const auto bits = [](float v) { return __float_as_uint(v); };
  const unsigned largest_x = __reduce_max_sync(~0u, max(bits(x0), bits(x1)));
  const unsigned largest_y = __reduce_max_sync(~0u, max(bits(y0), bits(y1)));
  float sum = y0 + y1;
#pragma unroll
  for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(~0u, sum, i);
  Scales s{1, 1, 1, 1, max(largest_x, largest_y) >= 0x7f800000};
  if constexpr (std::is_same_v<T, bhalf_t>) return s;
  constexpr int kLeast = -100, kMost = 112;
  const int ex = min(max(int(largest_x >> 23) - 127, kLeast), kMost);
  const int ey = min(max(int(largest_y >> 23) - 127, kLeast), kMost), es = min(max(exponent_of(sum), ey), ey + 6);
  s.x = power_of_two(14 - ex);
  if constexpr (std::is_same_v<T, half_t>) {
    s.y = power_of_two(14 - ey);
    s.between = power_of_two(ey - es - 15);
    s.back = power_of_two(ex + es - 13);
  } else {
    // A byte is multiplied as u * 2^-24, and the sum of the |taps| is below 2^15.
    s.y = power_of_two(14 - es);
    s.back = power_of_two(ex + es - 4);
  }
  return s;
}

// Two numbers as two words of P: the rounded numbers, and the remainders of the rounding.
template <typename P>
__device__ __forceinline__ void split(float low, float high, unsigned& large, unsigned& small) {
  large = round_pair<P>(low, high);
  float large_low, large_high;
  if constexpr (std::is_same_v<P, bhalf_t>) {
    large_low = __uint_as_float(large << 16), large_high = __uint_as_float(large & 0xffff0000);
  } else {
    P parts[2];
    memcpy(parts, &large, sizeof(parts));
    large_low = to_acc<float>(parts[0]), large_high = to_acc<float>(parts[1]);
  }
  small = round_pair<P>(low - large_low, high - large_high);
}

// A block's taps in shared memory, zeros before and behind them: bands read beyond both ends. All threads.
__device__ __forceinline__ void write_taps(float* to, const float* taps, int count, int threads) {
  for (int i = threadIdx.x; i < MmaPolicy::taps_held; i += threads) {
    const int tap = i - MmaPolicy::taps_before;
    to[i] = unsigned(tap) < unsigned(count) ? taps[tap] : 0.f;
  }
}

// Fills words[part][i][lane] with the left matrices of the column pass and the right ones of the row pass. A left
// element is ty[k - m], for row k of the box and row m of outputs. A right one is tx[column - off - n], for column n of
// outputs. For bytes even columns of a tile precede odd ones, as in the column pass. Warps take turns.
template <typename P>
__device__ __forceinline__ void make_bands(unsigned* words, const float* taps_x, const float* taps_y,
                                           const Scales& scales, int pad_x, const MmaPolicy& s, int warps) {
  const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
  taps_x -= tiles_before(s.tile(), pad_x) * s.tile() - pad_x + g;
  taps_y += 2 * q - g;
#pragma unroll
  for (int first = 0; first < s.band_words(); first += warps) {
    const int word = first + int(threadIdx.x) / 32, w = word - s.column_words();
    if (word >= s.band_words()) break;
    const float* two = w < 0          ? taps_y + 8 * (word / 2 - word % 2)
                       : s.bytes == 1 ? taps_x + 16 * (w / 4) - 8 * (w / 2 % 2) + w % 2 + 4 * q
                                      : taps_x + 8 * w + 2 * q;
    const float scale = w < 0 ? scales.y : scales.x, next = two[w < 0 || s.bytes != 1 ? 1 : 2];
    unsigned* const to = words + 32 * word + lane;
    split<P>(two[0] * scale, next * scale, to[0], to[32 * s.band_words()]);
  }
}

// ---- Passes ---------------------------------------------------------------------------------------------------------

// Tiles that are loaded, multiplied and stored together.
template <typename T>
constexpr int tiles_at_once() {
  return sizeof(T) == 1 ? 2 : 4;
}

// Two bytes of a word, those of even or odd columns, as the halves u * 2^-24.
__device__ __forceinline__ unsigned bytes_as_halves(unsigned word, int odd) {
  return odd ? __byte_perm(word, 0, 0x4341) : word & 0x00ff00ff;
}

template <typename P, int kHalves>
__device__ __forceinline__ void column_pass(float (&sum)[4], const unsigned (&band)[kHalves][2][2],
                                            const unsigned (&pixels)[kHalves]) {
#pragma unroll
  for (int part = 1; part >= 0; --part) {
#pragma unroll
    for (int h = 0; h + 1 < kHalves; h += 2) {
      const unsigned left[4] = {band[h][0][part], band[h][1][part], band[h + 1][0][part], band[h + 1][1][part]};
      if (part == 1 && h == 0) mma_into<P>(sum, left, pixels[h], pixels[h + 1], 0, 0, 0, 0);
      else mma_add<P>(sum, left, pixels[h], pixels[h + 1]);
    }
    if constexpr (kHalves % 2 == 1) {
      constexpr int h = kHalves - 1;
      mma_add<P>(sum, band[h][0][part], band[h][1][part], pixels[h]);
    }
  }
}

// Sums between the passes as left matrices of the row pass, in two parts: the last of the chunk before, which these
// outputs see, then those of this chunk. So registers move once a chunk.
template <int kSeen, int kNew>
struct Sums {
  unsigned parts[2][kSeen - 1 + kNew][4] = {};

  __device__ __forceinline__ void next_chunk() {
#pragma unroll
    for (int part = 0; part < 2; ++part)
#pragma unroll
      for (int i = 0; i + 1 < kSeen; ++i)
#pragma unroll
        for (int r = 0; r < 4; ++r) parts[part][i][r] = parts[part][i + kNew][r];
  }
};

// A tile of sums, times `scale`, becomes registers r and r + 1 of the chunk's matrix i.
template <typename P, int kSeen, int kNew>
__device__ __forceinline__ void split(const float (&sum)[4], float scale, Sums<kSeen, kNew>& sums, int i, int r) {
  unsigned(&large)[4] = sums.parts[0][kSeen - 1 + i], (&small)[4] = sums.parts[1][kSeen - 1 + i];
#pragma unroll
  for (int half = 0; half < 2; ++half)
    split<P>(sum[2 * half] * scale, sum[2 * half + 1] * scale, large[r + half], small[r + half]);
}

// Outputs of 16-bit elements, of the tile in the first or second half (`odd`) of the chunk's matrix i. For `odd` the
// last tile of sums, and the first that windows see, are second halves. Otherwise both are first halves, and the last
// is alone in its matrix.
template <typename P, int kTiles, int kSeen, int kNew>
__device__ __forceinline__ void row_pass(float (&out)[4], const Sums<kSeen, kNew>& sums,
                                         const unsigned (&band)[kTiles][2], int i, int odd) {
  const int lone = i + (odd ? 0 : kSeen - 1), r = 2 * odd, lone_band = odd ? 0 : kTiles - 1;
  if constexpr (kSeen == 1) out[0] = out[1] = out[2] = out[3] = 0;
#pragma unroll
  for (int term = 0; term < 3; ++term) {
    const int sum_part = term == 0, tap_part = term == 1;
    const auto& left = sums.parts[sum_part];
#pragma unroll
    for (int j = 0; j + 1 < kSeen; ++j) {
      const unsigned right[2] = {band[2 * j + odd][tap_part], band[2 * j + 1 + odd][tap_part]};
      if (term == 0 && j == 0) mma_into<P>(out, left[i + j + odd], right[0], right[1], 0, 0, 0, 0);
      else mma_add<P>(out, left[i + j + odd], right[0], right[1]);
    }
    mma_add<P>(out, left[lone][r], left[lone][r + 1], band[lone_band][tap_part]);
  }
}

// Bytes, outputs of the chunk's tile i: of the tiles of sums that it sees, [begin, end); words `word` and `word` + 1 of
// a tile's four belong to these outputs.
template <typename P, int kTiles, int kNew>
__device__ __forceinline__ void row_pass(float (&out)[4], const Sums<kTiles, kNew>& sums,
                                         const unsigned (&band)[4 * kTiles][2], int i, int word, int begin, int end) {
#pragma unroll
  for (int term = 0; term < 3; ++term) {
    const int sum_part = term == 0, tap_part = term == 1;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      if (j < begin || j >= end) continue;
      const unsigned right[2] = {band[4 * j + word][tap_part], band[4 * j + word + 1][tap_part]};
      if (term == 0 && j == begin) mma_into<P>(out, sums.parts[sum_part][i + j], right[0], right[1], 0, 0, 0, 0);
      else mma_add<P>(out, sums.parts[sum_part][i + j], right[0], right[1]);
    }
  }
}

}  // namespace torch_conv::separable2d::mma

#endif
