// The sums of a warp's rows of a tile in shared memory. A lane owns N columns; an input row is read once and added to
// the output rows that see it. Output rows are finished and stored from top to bottom.
#pragma once

#include "direct2d/tile_box.cuh"

namespace torch_conv::direct2d {

// Windows up to kUnrolledMost: all rows and taps are unrolled; `tap` stands in registers.
template <typename T, int KH, int KW, bool kAligned>
__device__ __forceinline__ void sum_unrolled(const PlaneArgs& a, const T* from, T* row_out, int y, int x,
                                             const acc_t<T> (&tap)[KH * KW], acc_t<T> bias, bool mask) {
  using A = acc_t<T>;
  constexpr TileShape shape = tile_shape(sizeof(T), KH, KW);
  // A lane reads L pixels left of its own and R right of them.
  constexpr int N = shape.lane_pixels, L = middle_of(KW), R = KW - 1 - L, pitch = shape.shared_width();
  // Its neighbours' pixels, in the smallest aligned pack that holds R of them.
  constexpr int H = sizeof(T) == 4 || R > 2 || sizeof(T) == 1 ? 4 : 2 * ((R + 1) / 2);
  A sum[shape.rows][N];
#pragma unroll
  for (int r = 0; r < shape.rows + KH - 1; ++r) {
    A v[L + N + R];
    const auto middle = load_pack<N>(from + r * pitch);
    if constexpr (L > 0) {
      const auto left = load_pack<H>(from + r * pitch - H);
#pragma unroll
      for (int i = 0; i < L; ++i) v[i] = to_acc<A>(left.v[H - L + i]);
    }
    if constexpr (R > 0) {
      const auto right_of = load_pack<H>(from + r * pitch + N);
#pragma unroll
      for (int i = 0; i < R; ++i) v[L + N + i] = to_acc<A>(right_of.v[i]);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) v[L + i] = to_acc<A>(middle.v[i]);
#pragma unroll
    for (int o = 0; o < shape.rows; ++o) {
      const int i = r - o;  // this input row is row i of the window over output row o
      if (i < 0 || i >= KH) continue;
#pragma unroll
      for (int p = 0; p < N; ++p) {
        A s = i == 0 ? A(0) : sum[o][p];
#pragma unroll
        for (int j = 0; j < KW; ++j) s = fma(tap[i * KW + j], v[p + j], s);
        sum[o][p] = s;
      }
      if (i == KH - 1) store_row<KH, KW, kAligned>(a, row_out + o * a.out_h, y + o, x, sum[o], bias, mask);
    }
  }
}

// Larger windows: input rows follow each other in a loop, whose body adds one to the KH output rows that see it. Slot i
// holds the output row whose window row i is the input row at hand: it goes on from the sum that slot i - 1 held, so
// sums move on by one slot a row without being copied. Taps come from shared memory, four by a broadcast read.
//
//   input row r:   slot 0      slot 1      ...   slot KH - 1
//   output row     r           r - 1             r - KH + 1: finished and stored
template <typename T, int KH, int KW, bool kAligned>
__device__ __forceinline__ void sum_marching(const PlaneArgs& a, const T* from, T* row_out, int y, int x,
                                             const float* taps, float bias, bool mask) {
  constexpr TileShape shape = tile_shape(sizeof(T), KH, KW);
  constexpr int N = shape.lane_pixels, L = middle_of(KW), pitch = shape.shared_width(), tap_pitch = tile_tap_pitch(KW);
  // Whole packs from the one that holds the window's first pixel on.
  constexpr int before = (L + N - 1) / N * N, packs = (before + N + KW - 1 - L + N - 1) / N;
  float sum[KH][N];
  // One input row. kAll: all of the KH output rows are rows of the tile.
  const auto take = [&]<bool kAll>(int r) {
    float v[packs * N];
#pragma unroll
    for (int i = 0; i < packs; ++i) {
      const auto pack = load_pack<N>(from - before + i * N);
#pragma unroll
      for (int e = 0; e < N; ++e) v[i * N + e] = to_acc<float>(pack.v[e]);
    }
#pragma unroll
    for (int i = KH - 1; i >= 0; --i) {
      if (!kAll && (i > r || r - i >= shape.rows)) continue;  // the same for all lanes
#pragma unroll
      for (int e = 0; e < N; ++e) sum[i][e] = i == 0 ? 0.0f : sum[i > 0 ? i - 1 : 0][e];
#pragma unroll
      for (int j = 0; j < KW; j += 4) {
        const float4 tap = *reinterpret_cast<const float4*>(taps + i * tap_pitch + j);
        const float four[4] = {tap.x, tap.y, tap.z, tap.w};
#pragma unroll
        for (int t = 0; t < 4 && j + t < KW; ++t)
#pragma unroll
          for (int e = 0; e < N; ++e) sum[i][e] = fma(four[t], v[before - L + j + t + e], sum[i][e]);
      }
    }
    from += pitch;
  };
  const auto store = [&](int r) {
    const int o = r - (KH - 1);
    store_row<KH, KW, kAligned>(a, row_out + o * a.out_h, y + o, x, sum[KH - 1], bias, mask);
  };
  // A body of its own for the rows in the middle, without branches between its sums: 9x9 87 -> 78 us, 13x13 167 -> 156
  // (float32 4096^2, one NVIDIA H200). Larger windows gain nothing (15x15 222, 219) and take as long again to compile.
  // Two streams of output rows a lane, which halve the reads of taps: 9x9 76-79 us, 13x13 153-181, 15x15 227-233.
  constexpr bool kMiddle = KH * KW <= 169 && shape.rows >= KH;
  if constexpr (kMiddle) {
    int r = 0;
#pragma unroll 1
    for (; r < KH - 1; ++r) take.template operator()<false>(r);
#pragma unroll 1
    for (; r < shape.rows; ++r) take.template operator()<true>(r), store(r);
#pragma unroll 1
    for (; r < shape.rows + KH - 1; ++r) take.template operator()<false>(r), store(r);
  } else {
#pragma unroll 1
    for (int r = 0; r < shape.rows + KH - 1; ++r) {
      take.template operator()<false>(r);
      if (r >= KH - 1) store(r);
    }
  }
}

}  // namespace torch_conv::direct2d
