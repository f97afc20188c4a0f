// Pixels in words of 4 bytes: converts the 4, 2 or 1 elements of a word to float32, and back.
#pragma once

#include "core/cuda/device.cuh"
#include "core/cuda/round_pair.cuh"

namespace torch_conv {

template <typename T>
constexpr int kPerWord = 4 / int(sizeof(T));

// Converts a word exactly, without the conversion unit, which has a quarter of the throughput. Integers become the low
// bits of a mantissa. Two bytes at a time become the halves 1024 + u, by 2 instructions a byte. (Denormal halves and
// taps times 2^24 need 1.5, but overflow for some taps. On one NVIDIA H200 uint8 5x5 of 8192^2 is 3 % faster with them,
// 3x3 6 % slower.)
template <typename T>
__device__ __forceinline__ void widen(unsigned word, float* to) {
  [[maybe_unused]] const auto halves = [](unsigned pair, float* to) {
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
        : "=f"(to[0]), "=f"(to[1])
        : "r"(pair));
  };
  if constexpr (std::is_same_v<T, float>) {
    to[0] = __uint_as_float(word);
  } else if constexpr (std::is_same_v<T, half_t>) {
    halves(word, to);
  } else if constexpr (std::is_same_v<T, bhalf_t>) {
    to[0] = __uint_as_float(word << 16), to[1] = __uint_as_float(word & 0xffff0000);
  } else if constexpr (std::is_same_v<T, uint8_t>) {
    // 0x64646464, hidden from the compiler: as an immediate operand it would force each selector into a register, half
    // an instruction a byte.
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    const unsigned exponents = 0x64646464 + (lane >> 5);
    const auto bytes = [&](unsigned selector, float* to) {
      unsigned pair = __byte_perm(word, exponents, selector);
      asm("add.rn.f16x2 %0, %0, %1;" : "+r"(pair) : "r"(0xe400e400));
      halves(pair, to);
    };
    bytes(0x4140, to), bytes(0x4342, to + 2);
  } else {
    static_assert(sizeof(T) == 2);
    constexpr bool with_sign = std::is_same_v<T, int16_t>;
    const unsigned u = with_sign ? word ^ 0x80008000 : word;
    const float offset = with_sign ? 8388608.f + 32768.f : 8388608.f;
    to[0] = __uint_as_float(__byte_perm(u, 0x4b000000, 0x7410)) - offset;
    to[1] = __uint_as_float(__byte_perm(u, 0x4b000000, 0x7432)) - offset;
  }
}

// Converts one number.
template <typename T>
__device__ __forceinline__ float widen_one(T x) {
  if constexpr (std::is_same_v<T, uint8_t> || std::is_same_v<T, uint16_t>)
    return __uint_as_float(0x4b000000 | unsigned(x)) - 8388608.f;
  else return to_acc<float>(x);
}

// Converts float32 to a word with the rounding of core/dtype.h. Two instructions pack and clamp four bytes.
template <typename O>
__device__ __forceinline__ unsigned narrow(const float* from) {
  [[maybe_unused]] const auto whole = [&](int i) {
    int r;
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(r) : "f"(from[i]));  // NaN becomes 0
    return r;
  };
  unsigned word;
  if constexpr (std::is_same_v<O, float>) {
    word = __float_as_uint(from[0]);
  } else if constexpr (std::is_same_v<O, uint8_t>) {
    asm("{ .reg .b32 high; cvt.pack.sat.u8.s32.b32 high, %4, %3, 0; cvt.pack.sat.u8.s32.b32 %0, %2, %1, high; }"
        : "=r"(word)
        : "r"(whole(0)), "r"(whole(1)), "r"(whole(2)), "r"(whole(3)));
  } else if constexpr (std::is_same_v<O, uint16_t>) {
    asm("cvt.pack.sat.u16.s32 %0, %2, %1;" : "=r"(word) : "r"(whole(0)), "r"(whole(1)));
  } else if constexpr (std::is_same_v<O, int16_t>) {
    asm("cvt.pack.sat.s16.s32 %0, %2, %1;" : "=r"(word) : "r"(whole(0)), "r"(whole(1)));
  } else {
    word = round_pair<O>(from[0], from[1]);
  }
  return word;
}

// Converts N elements: whole words, or one element.
template <int N, typename T>
__device__ __forceinline__ void widen_pack(const Pack<N, T>& pack, float* to) {
  constexpr int count = (N + kPerWord<T> - 1) / kPerWord<T>;
  static_assert(N == 1 || N % kPerWord<T> == 0);
  unsigned words[count] = {};
  memcpy(words, &pack, sizeof(pack));
  if constexpr (N < kPerWord<T>) {
    float values[kPerWord<T>];
    widen<T>(words[0], values);
    to[0] = values[0];
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) widen<T>(words[i], to + i * kPerWord<T>);
  }
}
template <int N, typename T>
__device__ __forceinline__ void widen_pack(const T* from, float* to) {
  widen_pack(load_pack<N>(from), to);
}

template <typename O, int N>
__device__ __forceinline__ Pack<N, O> narrow_pack(const float (&from)[N]) {
  constexpr int count = N * int(sizeof(O)) / 4;
  unsigned words[count];
#pragma unroll
  for (int i = 0; i < count; ++i) words[i] = narrow<O>(from + i * kPerWord<O>);
  Pack<N, O> pack;
  memcpy(&pack, words, sizeof(pack));
  return pack;
}

}  // namespace torch_conv
