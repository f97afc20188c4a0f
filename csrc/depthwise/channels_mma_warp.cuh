// What a warp of CHANNELS_MMA keeps in registers and does with a stage, and the sums that are made again.
#pragma once

#include "core/activation.h"
#include "core/round_pair.cuh"
#include "core/tma.cuh"
#include "depthwise/params_channels_mma.h"

namespace torch_conv::depthwise {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

namespace channels_mma {

// to = from + sparse weights * pixels. In all lanes the same order of channels: rows 0-7 use numbers 0 and 2 of every
// four, rows 8-15 numbers 1 and 3.
constexpr unsigned kOrder = 0xdddd8888;

template <typename T>
__device__ __forceinline__ void add(float (&to)[4], const float (&from)[4], const unsigned (&weight)[4],
                                    const unsigned (&pixels)[4]) {
#define TC_SPARSE_PRODUCT(TYPE)                                                                         \
  asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32." TYPE "." TYPE                       \
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%12, %13, %14, %15}, %16, 0x0;"    \
      : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])                                              \
      : "r"(weight[0]), "r"(weight[1]), "r"(weight[2]), "r"(weight[3]), "r"(pixels[0]), "r"(pixels[1]), \
        "r"(pixels[2]), "r"(pixels[3]), "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3]), "r"(kOrder))
  if constexpr (std::is_same_v<T, half_t>) {
    TC_SPARSE_PRODUCT("f16");
  } else {
    TC_SPARSE_PRODUCT("bf16");
  }
#undef TC_SPARSE_PRODUCT
}

__device__ __forceinline__ void load_both(unsigned& a, unsigned& b, unsigned from) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(from));
}

__device__ __forceinline__ void store_both_if(bool condition, unsigned to, unsigned a, unsigned b) {
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %0, 0; @p st.shared.v2.b32 [%1], {%2, %3}; }" ::"r"(int(condition)),
               "r"(to), "r"(a), "r"(b)
               : "memory");
}

// Where four channels (8 bytes) of a pixel of a box lie.
template <int kChannels>
__device__ __forceinline__ unsigned place_of(int pixel, int four) {
  static_assert(kChannels == 16 || kChannels == 32);
  const int turn = kChannels == 16 ? pixel >> 2 & 1 : pixel >> 1 & 3;
  return pixel * (2 * kChannels) + (((four >> 1) ^ turn) << 4) + (four & 1) * 8;
}

template <typename T>
__device__ __forceinline__ bool is_nan(unsigned bits) {
  return (bits & 0x7fff) > (std::is_same_v<T, half_t> ? 0x7c00u : 0x7f80u);
}

// Where a block of rows of outputs lies: of image n, from column x on and row y on.
struct OutPlace {
  int n, x, y;
};

// Infinite or NaN.
template <typename T>
__device__ __forceinline__ bool is_wild(unsigned bits) {
  constexpr unsigned exponent = std::is_same_v<T, half_t> ? 0x7c00u : 0x7f80u;
  return (bits & exponent) == exponent;
}

// Sums again what is NaN of a warp's channels, from `channel` on, in the rows of a block; or all of them.
template <typename T, typename Tile, Activation kind>
__device__ __noinline__ void sum_again(const Depthwise& p, unsigned char* staging, OutPlace at, int channel, int four,
                                       bool all) {
  constexpr ChannelsMmaTile t = Tile::value;
  constexpr int in_row = t.images() * t.out_pitch();
  for (int i = threadIdx.x % 32; i < t.rows() * in_row; i += 32) {
    const int row = i / in_row, image = i % in_row / t.out_pitch(), column = i % t.out_pitch();
    const int n = at.n + image, y = at.y + row, x = at.x + column;
    if (n >= p.out.n || y < 0 || y >= p.out.h || x >= p.out.w || column >= t.width()) continue;
    uint16_t* const staged = reinterpret_cast<uint16_t*>(staging + place_of<t.channels>(i, four));
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

template <int... numbers>
struct TileOf {
  static constexpr ChannelsMmaTile value{numbers...};
};

// A warp's sums and weights. Lane 4 g + q holds output g of a tile, of columns 2 q and 2 q + 1, and brings slots 2 q,
// 2 q + 1, 2 q + 8 and 2 q + 9 of column g.
template <typename T, typename Tile, Activation kind>
struct Warp {
  static constexpr ChannelsMmaTile t = Tile::value;
  static constexpr int kRows = t.rows(), kRowBytes = t.row_bytes();

  unsigned weight[t.kh][2][4];  // of the two pairs of channels
  float sum[kRows][2][4];       // of output rows, by their first input row modulo kRows
  float bias[2][4];             // where sums start, like a sum
  unsigned even, odd;           // offsets in a stage of this lane's slots 2 q and 2 q + 1
  unsigned to[2];               // offsets in a block of this lane's outputs
  bool writes[2];
  int four;  // the warp's channels among the block's: four of them
  unsigned zero, seen;
  // A weight of the warp's is not finite: rows outside the image are no products, and would hide its NaN.
  bool wild;

  __device__ __forceinline__ void start(const Depthwise& p, int first_channel, unsigned hidden_zero) {
    const int lane = threadIdx.x % 32, q = lane & 3, g = lane >> 2;
    four = threadIdx.x / 32;
    zero = hidden_zero, seen = 0;
    const int column = g % t.columns(), slot = column / t.tiles * t.pitch() + column % t.tiles * t.kOutputs + 2 * q;
    even = place_of<t.channels>(slot, four), odd = place_of<t.channels>(slot + 1, four);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int n = 2 * q + e;
      to[e] = place_of<t.channels>(n / t.tiles * t.out_pitch() + n % t.tiles * t.kOutputs + g, four);
      writes[e] = g < t.kOutputs && n < t.columns();
    }
    read_weights(p, first_channel + four * 4, q, g);
    clear();
  }

  __device__ __forceinline__ void read_weights(const Depthwise& p, int channel, int q, int g) {
    const uint16_t* const all = static_cast<const uint16_t*>(p.weight);
    const uint16_t* of[2][2];  // this lane's taps of a row, of both halves of the slots
    unsigned stands[2] = {};
    bool found = false;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int j = 8 * half + 2 * q + e, i = j >> 2, tap = 2 * (j & 3) + (i & 1) + 8 * (i >> 1) - g;
        const bool inside = tap >= 0 && tap < t.kw && g < t.kOutputs;
        of[half][e] = all + (inside ? tap : 0);
        if (inside) stands[half] |= 0xffffu << 16 * e;
      }
#pragma unroll
    for (int pair = 0; pair < 2; ++pair)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int c = channel + 2 * pair + e;
        const int64_t window = int64_t(min(c, int(p.in.c) - 1)) * (t.kh * t.kw);
        const bool there = c < p.in.c && g < t.kOutputs;
        bias[pair][2 * e] = bias[pair][2 * e + 1] =
            p.bias && there ? to_acc<float>(static_cast<const T*>(p.bias)[c]) : 0.f;
#pragma unroll
        for (int ky = 0; ky < t.kh; ++ky)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const unsigned low = of[half][0][window + ky * t.kw], high = of[half][1][window + ky * t.kw];
            const unsigned taps = there ? (high << 16 | low) & stands[half] : 0;
            weight[ky][pair][2 * half + e] = taps;
            found = found || is_wild<T>(taps) || is_wild<T>(taps >> 16);
          }
      }
    wild = __any_sync(~0u, found);
  }

  // Before the first row of an image, rows above which add nothing.
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int row = 0; row < kRows; ++row)
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[row][i / 4][i % 4] = bias[i / 4][i % 4];
  }

  // Rows `first` .. of a stage; `finishes`: the output rows that they finish go into `staging`.
  template <int first, bool finishes>
  __device__ __forceinline__ void rows(unsigned stage, unsigned staging) {
    unsigned loaded[2][4];
    load(loaded, stage + first * kRowBytes);
#pragma unroll
    for (int row = first; row < kRows; ++row) {
      // A run-time zero puts every word into its place among the four registers of a product once; ptxas would copy all
      // four for every product (a prototype on one NVIDIA H200, 7x7: 16 % of the time).
      unsigned pixels[2][4];
#pragma unroll
      for (int i = 0; i < 8; ++i) pixels[i / 4][i % 4] = loaded[i / 4][i % 4] ^ zero;
      if (row < kRows - 1) load(loaded, stage + (row + 1) * kRowBytes);
#pragma unroll
      for (int ky = t.kh - 1; ky > 0; --ky)
#pragma unroll
        for (int pair = 0; pair < 2; ++pair)
          add<T>(sum[(row - ky + kRows) % kRows][pair], sum[(row - ky + kRows) % kRows][pair], weight[ky][pair],
                 pixels[pair]);
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) add<T>(sum[row][pair], bias[pair], weight[0][pair], pixels[pair]);
      if constexpr (finishes) finish(row, sum[(row + 1 - t.kh + kRows) % kRows], staging);
    }
  }

  // After the last row of an image: the output rows that only rows below it would finish.
  __device__ __forceinline__ void last_rows(unsigned staging) {
#pragma unroll
    for (int row = 0; row < t.kh - 1; ++row) finish(row, sum[(row + 1 - t.kh + kRows) % kRows], staging);
  }

  // Has anything been read that is not finite, since this was asked last?
  __device__ __forceinline__ bool asks_again() {
    const bool any = __any_sync(~0u, threadIdx.x % 32 >= 4 * t.kOutputs && (seen & 0x7fff7fff));
    seen = 0;
    return any || wild;
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
      for (int pair = 0; pair < 2; ++pair)
        words[pair] = round_pair<T>(activated<kind>(of[pair][e]), activated<kind>(of[pair][2 + e]));
      store_both_if(writes[e], staging + to[e] + row * t.out_row_bytes(), words[0], words[1]);
      seen |= words[0] | words[1];
    }
  }
};

}  // namespace channels_mma

#endif

}  // namespace torch_conv::depthwise
