// The ends of a row of box_bytes: sums become bytes, and a lane's 32 bytes a part of the row.
#pragma once

#include "kernels/box/bytes/common.cuh"
#include "kernels/box/mean.h"

namespace torch_conv::box {

// The low bytes of four numbers.
__device__ __forceinline__ uint32_t pack4(const uint32_t (&v)[4]) {
  return __byte_perm(__byte_perm(v[0], v[1], 0x0040), __byte_perm(v[2], v[3], 0x0040), 0x5410);
}

// Four sums become four bytes.
template <Rounding kRounding>
__device__ __forceinline__ uint32_t finish4(const ByteArgs& a, const int (&sums)[4]) {
  uint32_t v[4];
  if constexpr (kRounding == Rounding::clamp) {
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = min(uint32_t(sums[i]), 255u);
    return pack4(v);
  } else {
    const auto rounded = [&](int sum, float reciprocal) {
      if constexpr (is_centred(kRounding)) return __float_as_uint(fmaf(float(sum), reciprocal, 12582912.f + 128.f));
      else return __float_as_uint(fmaf(__uint_as_float(sum), reciprocal, 3.f));
    };
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = rounded(sums[i], a.low);
    uint32_t word = pack4(v);
    if constexpr (takes_two(kRounding)) {
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] = rounded(sums[i], a.high);
      const uint32_t odd = (word & 0x01010101) * 255;
      word = (pack4(v) & odd) | (word & ~odd);  // where the two are the neighbours of a tie, one of them is even
    }
    return word;
  }
}

// Means of the pixels inside: every output has an area of its own.
template <int kChannels>
struct CountedMean {
  int rows, most, end, left, x;  // of a window inside the image; pixels to the left and to the right of its ends
  // The lane's first output is column `first`.
  __device__ __forceinline__ CountedMean(const ByteArgs& a, int rows, int first)
      : rows(rows),
        most(min(a.kw, a.in_w / kChannels)),
        end(a.kw - a.pad_x),
        left(a.in_w / kChannels + a.pad_x),
        x(first) {
    if constexpr (kChannels == 1) end += first, left -= first;
  }
  __device__ __forceinline__ uint32_t operator()(int sum, int j) const {
    const int at = kChannels == 1 ? j : (x + j) / kChannels;
    const int area = max(rows * min(most, min(end + at, left - at)), 1);
    return uint32_t(rounded_mean<float, uint32_t>(uint32_t(sum), near_reciprocal(float(area)), uint32_t(area)));
  }
};

// All ones from byte n on.
__device__ __forceinline__ uint32_t bytes_from(int n) { return n <= 0 ? ~0u : n >= 4 ? 0u : ~0u << 8 * n; }

// The 32 bytes that begin kShift outputs before a lane's own.
template <int kShift>
__device__ __forceinline__ void shift_outputs(const uint32_t (&from)[8], uint32_t (&to)[8]) {
  constexpr int kWords = kShift / 4, kBits = kShift % 4 * 8;
  const uint32_t last = kShift > 0 ? __shfl_up_sync(0xffffffff, from[7], 1) : 0,
                 last_but_one = kShift > 4 ? __shfl_up_sync(0xffffffff, from[6], 1) : 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const auto word = [&](int at) { return at >= 0 ? from[at >= 0 ? at : 0] : at == -1 ? last : last_but_one; };
    to[i] = kBits == 0 ? word(i - kWords) : __funnelshift_l(word(i - kWords - 1), word(i - kWords), kBits);
  }
}

// Rows that start on 16 bytes: lane by lane. `from` are the bytes at `to`, of which `count` are outputs.
__device__ __forceinline__ void store_lane(uint8_t* to, const uint32_t (&from)[8], int count) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (count >= 16 * (i + 1))
      *reinterpret_cast<uint4*>(to + 16 * i) = uint4{from[4 * i], from[4 * i + 1], from[4 * i + 2], from[4 * i + 3]};
  }
  if (count <= 0 || count % 16 == 0 || count >= 32) return;
#pragma unroll
  for (int j = 0; j < 32; ++j)
    if (j / 16 == count / 16 && j < count) to[j] = uint8_t(from[j / 4] >> j % 4 * 8);
}

// Stores unaligned rows through the row's part of shared memory: contiguous whole words, and bytes at both
// ends. `bytes` are the outputs of a lane's columns; the strip's first output ends at column a.lead.
__device__ __forceinline__ void store_row(const ByteArgs& a, const ByteStrip& strip, unsigned char* row, uint8_t* to,
                                          const uint32_t (&bytes)[8]) {
  const int lane = threadIdx.x % 32, over = int(reinterpret_cast<uintptr_t>(to) % 4);  // `to` is behind a whole word
  const int from = a.lead - over, by = from & 3;
  const uint32_t next = __shfl_down_sync(0xffffffff, bytes[0], 1);
  uint32_t words[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) words[i] = __funnelshift_r(bytes[i], i < 7 ? bytes[(i + 1) % 8] : next, 8 * by);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 2; ++i)
    *reinterpret_cast<uint4*>(row + 32 * lane + 16 * i) =
        uint4{words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]};
  __syncwarp();
  const unsigned char* const first = row + (from - by);  // the bytes for `to` - over
  uint8_t* const start = to - over;
  const int end = over + strip.valid;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int at = 4 * (32 * i + lane);
    if (at >= over && at + 4 <= end)
      *reinterpret_cast<uint32_t*>(start + at) = *reinterpret_cast<const uint32_t*>(first + at);
  }
  // Lanes 0 .. 3 have the first word's bytes, lanes 4 .. 7 the last one's.
  const int at = lane < 4 ? lane : end / 4 * 4 + lane - 4;
  const bool is_mine = lane < 4 ? over > 0 : lane < 8 && (over == 0 || at >= 4);
  if (is_mine && at >= over && at < end) start[at] = first[at];
}

}  // namespace torch_conv::box
