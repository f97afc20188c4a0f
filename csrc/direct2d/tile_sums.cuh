// The sums of a warp's rows of a tile in shared memory. A lane owns N columns; an input row that it reads is added to
// all output rows that see it.
#pragma once

#include "direct2d/tile_box.cuh"

namespace torch_conv::direct2d {

// The pixels of one input row that a lane's windows of KW columns cover. kByBits: bytes become floats by read_pack,
// which leaves the unit for conversions alone; small windows rather keep the FMA pipe free (uint8 3x3: 83 against 80 %
// of copy).
template <typename T, int KW, int N, bool kByBits = false>
struct LaneRow {
  using A = acc_t<T>;
  static constexpr int L = middle_of(KW), R = KW - 1 - L;  // left of the lane's own N pixels, right of them
  A v[L + N + R];

  // `own`: the lane's first pixel. Its neighbours come in the smallest aligned packs.
  __device__ __forceinline__ void load(const T* own) {
    constexpr int H = sizeof(T) != 2 || R > 2 ? 4 : 2, before = (L + H - 1) / H * H;
#pragma unroll
    for (int at = -before; at < 0; at += H) take<H>(own, at);
    take<N>(own, 0);
#pragma unroll
    for (int at = N; at < N + R; at += H) take<H>(own, at);
  }
  // Adds a row of the window to the sums of a row of outputs.
  __device__ __forceinline__ void add(const A* tap, A (&sum)[N]) const {
#pragma unroll
    for (int p = 0; p < N; ++p)
#pragma unroll
      for (int j = 0; j < KW; ++j) sum[p] = fma(tap[j], v[p + j], sum[p]);
  }

 private:
  template <int H>
  __device__ __forceinline__ void take(const T* own, int at) {
    A pixels[H];
    if constexpr (kByBits) {
      read_pack<H>(own + at, pixels);
    } else {
      const auto pack = load_pack<H>(own + at);
#pragma unroll
      for (int i = 0; i < H; ++i) pixels[i] = to_acc<A>(pack.v[i]);
    }
#pragma unroll
    for (int i = 0; i < H; ++i)
      if (at + i >= -L && at + i < N + R) v[L + at + i] = pixels[i];
  }
};

// What a lane makes: its columns of its warp's rows, and where they go.
template <typename T>
struct LaneOutput {
  T* row;
  int y, x;  // of the first
  acc_t<T> bias;
  bool mask;
};

// Windows of fewer than kTapsAtOnce taps: all rows and taps are unrolled, the taps stand in registers. A row of outputs
// is stored as soon as it is done, so the sums of KH rows are alive.
template <typename T, int KH, int KW, bool kAligned>
__device__ __forceinline__ void sum_unrolled(const PlaneArgs& a, const T* from, const LaneOutput<T>& out,
                                             const acc_t<T> (&tap)[KH * KW]) {
  constexpr TileShape shape = tile_shape(sizeof(T), KH, KW);
  constexpr int N = shape.lane_pixels;
  acc_t<T> sum[shape.rows][N];
#pragma unroll
  for (int r = 0; r < shape.rows + KH - 1; ++r) {
    LaneRow<T, KW, N> row;
    row.load(from + r * shape.shared_width());
#pragma unroll
    for (int o = 0; o < shape.rows; ++o) {
      const int i = r - o;  // this input row is row i of the window over output row o
      if (i < 0 || i >= KH) continue;
      if (i == 0)
#pragma unroll
        for (int p = 0; p < N; ++p) sum[o][p] = 0;
      row.add(tap + i * KW, sum[o]);
      if (i == KH - 1)
        store_row<KH, KW, kAligned>(a, out.row + o * a.planes.out_stride_h, out.y + o, out.x, sum[o], out.bias,
                                    out.mask);
    }
  }
}

// Adds `count` rows of the window to all rows of the warp. `from` and `taps`: where the first of them is read.
template <typename T, int KW, int count, int rows, int N>
__device__ __forceinline__ void add_group(const T* from, int pitch, const float* taps, float (&sum)[rows][N]) {
  float tap[count][tile_tap_pitch(KW)];
#pragma unroll
  for (int i = 0; i < count; ++i)
#pragma unroll
    for (int j = 0; j < KW; j += 4)
      *reinterpret_cast<float4*>(tap[i] + j) = *reinterpret_cast<const float4*>(taps + i * tile_tap_pitch(KW) + j);
#pragma unroll
  for (int r = 0; r < rows + count - 1; ++r) {
    LaneRow<T, KW, N, true> row;
    row.load(from + r * pitch);
#pragma unroll
    for (int i = 0; i < count; ++i)
      if (r - i >= 0 && r - i < rows) row.add(tap[i], sum[r - i]);
  }
}

// Larger windows, a few of their rows at a time, whose taps fit into the 63 uniform registers: the tile's rows pass
// once for each group, and the sums of all the warp's rows go on with the next one.
//
//   group 0: window rows 0 .. G - 1     sum[o] += rows o .. o + G - 1 of the tile
//   group 1: window rows G .. 2 G - 1   sum[o] += rows o + G .. o + 2 G - 1
//
// float32 4096^2 on one NVIDIA H200: 9x9 67 us, 11x11 92, 13x13 121, 15x15 150; with taps in vector registers, read
// again for every row of the tile, 77, 119, 158, 224. Groups of windows beyond 81 taps run in a loop, whose code stays
// in the instruction cache (15x15 150 us, unrolled 192); smaller windows lose by a loop (8x8 56 us, unrolled 51).
template <typename T, int KH, int KW, bool kAligned>
__device__ __forceinline__ void sum_in_groups(const PlaneArgs& a, const T* from, const LaneOutput<T>& out,
                                              const float* taps) {
  constexpr TileShape shape = tile_shape(sizeof(T), KH, KW);
  constexpr int G = tap_group(KH, KW), rest = KH % G, pitch = shape.shared_width(), unrolled = KH * KW > 81 ? 1 : KH;
  float sum[shape.rows][shape.lane_pixels] = {};
  if constexpr (rest > 0) add_group<T, KW, rest>(from, pitch, taps, sum);
#pragma unroll unrolled
  for (int first = rest; first < KH; first += G)
    add_group<T, KW, G>(from + first * pitch, pitch, taps + first * tile_tap_pitch(KW), sum);
#pragma unroll
  for (int o = 0; o < shape.rows; ++o)
    store_row<KH, KW, kAligned>(a, out.row + o * a.planes.out_stride_h, out.y + o, out.x, sum[o], out.bias, out.mask);
}

}  // namespace torch_conv::direct2d
