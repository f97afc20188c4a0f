// The chunks of MMA that bulk copies do not bring: of unaligned rows, and of interleaved channels.
//
// clang-format off
//     memory      . . . . . . . . . . . .   vectors of 16 bytes, copied unchanged during the products of the last chunk
//     a row           r g b r g b r g b     starts `behind` in a vector; rows of a chunk are `raw_pitch` bytes apart
//     chunks          r r r  g g g  b b b   swizzled as by bulk copies, a box for each channel
// clang-format on
//
// A warp converts only the vectors that it has copied, so it waits for no other warp: eight lanes share a row.
#pragma once

#include "core/cuda/async_copy.cuh"
#include "core/cuda/interleaved.cuh"
#include "core/cuda/unroll.cuh"
#include "kernels/separable2d/mma/chunks.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

namespace torch_conv::separable2d::mma {

// The position of vector i of a row in shared memory. For 2 and 4 channels eight lanes, which read every second or
// fourth of them, have no bank conflicts.
template <int channels>
__device__ __forceinline__ int raw_word(int i) {
  return channels % 2 == 0 ? i ^ (i / 8 & (channels - 1)) : i;
}

// The start of the word of 16 bytes that holds an address.
template <typename T>
__device__ __forceinline__ T* aligned_down(T* p) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(p) & ~uintptr_t(15));
}

// The words that hold a chunk, which starts at (bx, top) of a plane; zeros beyond the end of a row, above and below.
template <typename T, MmaPolicy s>
__device__ __forceinline__ void copy_rows(unsigned char* raw, const BandArgs& a, const T* plane, int bx, int top) {
  constexpr int kSize = s.channels * int(sizeof(T)), kWords = s.raw_pitch() / 16, kStep = s.threads() / 8;
  constexpr int kTurns = (s.box_h() + kStep - 1) / kStep;
  const int first = threadIdx.x / 8, lane = threadIdx.x % 8, begin = bx * kSize, end = a.planes.in_w * kSize;
  const int64_t stride = a.planes.in_stride_h * int64_t(sizeof(T));
  const char* row = reinterpret_cast<const char*>(plane) + (top + first) * stride + begin;
  const auto copy = [&](auto clips) {
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn, row += kStep * stride) {
      const int r = first + turn * kStep;
      if ((turn + 1) * kStep > s.box_h() && r >= s.box_h()) break;
      const bool exists = unsigned(top + r) < unsigned(a.planes.in_h);
      const char* const own = aligned_down(row + 16 * lane);
#pragma unroll
      for (int i = 0; i < kWords; i += 8) {
        if (i + 8 > kWords && i + lane >= kWords) break;
        unsigned char* const to = raw + r * s.raw_pitch() + 16 * raw_word<s.channels>(i + lane);
        int bytes = exists ? 16 : 0;
        if constexpr (clips.value) {
          const int at = begin + 16 * (i + lane) - int(reinterpret_cast<uintptr_t>(row) & 15);
          bytes = exists && at > -16 ? min(max(end - at, 0), 16) : 0;
          if (bytes % 16 > 0) {  // a row ends in this word, and with it perhaps the memory: element by element
#pragma unroll 1
            for (int e = 0; e < 16 / int(sizeof(T)); ++e)
              reinterpret_cast<T*>(to)[e] =
                  e * int(sizeof(T)) < bytes ? reinterpret_cast<const T*>(own + 16 * i)[e] : T{};
            continue;
          }
        }
        async_copy<16>(to, own + 16 * i, bytes);
      }
    }
  };
  if (begin >= 16 && begin + 16 * kWords <= end) copy(std::false_type{});
  else copy(std::true_type{});
}

// 16 * count + 16 bytes, without the first `behind`, below 16.
template <int count>
__device__ __forceinline__ void shift_down(unsigned (&words)[4 * count + 4], int behind) {
#pragma unroll
  for (int i = 0; i < 4 * count + 2; ++i) words[i] = behind & 8 ? words[i + 2] : words[i];
#pragma unroll
  for (int i = 0; i < 4 * count + 1; ++i) words[i] = behind & 4 ? words[i + 1] : words[i];
#pragma unroll
  for (int i = 0; i < 4 * count; ++i) words[i] = __funnelshift_r(words[i], words[i + 1], behind * 8);
}

// 16 bytes of each of the interleaved channels in `words`.
template <int size, int channels, int count>
__device__ __forceinline__ void take_apart(uint4 (&of)[channels], const unsigned (&words)[count]) {
  if constexpr (channels == 1) {
    of[0] = {words[0], words[1], words[2], words[3]};
  } else if constexpr (size == 1 && channels == 4) {
    unsigned to[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned* w = words + 4 * i;
      const unsigned low = __byte_perm(w[0], w[1], 0x5140), high = __byte_perm(w[0], w[1], 0x7362);
      const unsigned next_low = __byte_perm(w[2], w[3], 0x5140), next_high = __byte_perm(w[2], w[3], 0x7362);
      to[0][i] = __byte_perm(low, next_low, 0x5410), to[1][i] = __byte_perm(low, next_low, 0x7632);
      to[2][i] = __byte_perm(high, next_high, 0x5410), to[3][i] = __byte_perm(high, next_high, 0x7632);
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) of[c] = {to[c][0], to[c][1], to[c][2], to[c][3]};
  } else {
    unroll<0, channels, 1>([&](auto c) {
      constexpr int step = 4 / size * channels, i = decltype(c)::value;
      of[i] = {every<size, channels, i>(words), every<size, channels, i + step>(words),
               every<size, channels, i + 2 * step>(words), every<size, channels, i + 3 * step>(words)};
    });
  }
}

// A raw chunk as boxes of the channels; zeros left of the image.
template <typename T, MmaPolicy s>
__device__ __forceinline__ void write_rows(unsigned char* boxes, const unsigned char* raw, const BandArgs& a,
                                           const T* plane, int bx, int top) {
  constexpr int kChannels = s.channels, kStep = s.threads() / 8, kTurns = (s.box_h() + kStep - 1) / kStep;
  // Eight lanes read one piece of each of eight rows of a raw bulk copy, else eight pieces of one row: no bank
  // conflicts.
  const int first = s.loads ? threadIdx.x / 64 * 8 + threadIdx.x % 8 : threadIdx.x / 8;
  const int piece = s.loads ? threadIdx.x / 8 % 8 : threadIdx.x % 8;
  const unsigned stride = unsigned(a.planes.in_stride_h) * unsigned(sizeof(T));
  const unsigned start = unsigned(reinterpret_cast<uintptr_t>(plane)) + unsigned(top + first) * stride +
                         unsigned(bx) * unsigned(kChannels * sizeof(T));
  const auto to = [&](int r, int channel) {
    return reinterpret_cast<uint4*>(boxes + channel * s.box_bytes() + r * s.chunk + (piece ^ r % 8) * 16);
  };
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    const int r = first + turn * kStep;
    if ((turn + 1) * kStep > s.box_h() && r >= s.box_h()) break;
    const int behind = int((start + unsigned(turn * kStep) * stride) & 15);
    const unsigned char* const row = raw + r * s.raw_pitch();
    unsigned words[4 * kChannels + (s.loads ? 0 : 4)];
    if constexpr (kChannels == 1) {
      const unsigned* const from = reinterpret_cast<const unsigned*>(row + 16 * piece + (behind & 12));
#pragma unroll
      for (int i = 0; i < 5; ++i) words[i] = from[i];
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = __funnelshift_r(words[i], words[i + 1], behind * 8);
    } else {
#pragma unroll
      for (int i = 0; i < kChannels + !s.loads; ++i) {
        const int word = kChannels * piece + i;
        const uint4 w = *reinterpret_cast<const uint4*>(s.loads ? raw + word / 8 * s.box_bytes() + r * s.chunk +
                                                                      (word % 8 ^ r % 8) * 16
                                                                : row + 16 * raw_word<kChannels>(word));
        words[4 * i] = w.x, words[4 * i + 1] = w.y, words[4 * i + 2] = w.z, words[4 * i + 3] = w.w;
      }
      if constexpr (!s.loads) shift_down<kChannels>(words, behind);
    }
    uint4 of[kChannels];
    take_apart<int(sizeof(T)), kChannels>(of, words);
#pragma unroll
    for (int c = 0; c < kChannels; ++c) *to(r, c) = of[c];
  }
  if (!s.loads && bx < 0 && bx + piece * s.tile() < 0)
#pragma unroll 1
    for (int r = first; r < s.box_h(); r += kStep)
#pragma unroll
      for (int c = 0; c < kChannels; ++c) *to(r, c) = {};
}

}  // namespace torch_conv::separable2d::mma

#endif
