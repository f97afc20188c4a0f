// The sums of a warp's rows of a tile in shared memory. A lane owns N columns, and adds an input row to all output rows
// over this row. `W` is TileTraits everywhere.
#pragma once

#include "kernels/direct2d/shared/outputs.cuh"
#include "kernels/direct2d/tile/params.h"

namespace torch_conv::direct2d {

// The values of one input row that the windows over N neighbouring columns cover.
template <typename T, class W>
struct NeighbourRow {
  static constexpr PlaneWindow w = W::window;
  // The input values at the lane's outputs, the values left of them, and the values right of them.
  static constexpr int N = W::shape.lane_values * w.stride, L = w.left(), R = w.right() - (w.stride - 1);
  float v[L + N + R];

  static __device__ __forceinline__ int column(int lane, int p) { return lane * W::shape.lane_values + p; }

  // True if a tap is over the value `at` columns right of the lane's first.
  static constexpr bool used(int at) {
    for (int p = 0; p < N; p += w.stride)
      if ((at - p + L) % w.dilation_x == 0 && at - p + L >= 0 && at - p + L <= L + w.right()) return true;
    return false;
  }
  template <int count>
  static constexpr bool any_used(int at) {
    for (int i = 0; i < count; ++i)
      if (used(at + i)) return true;
    return false;
  }

  // Row r of a box from the lane's first column on. Bulk copies align rows: the lane reads its own values and its halo
  // by packs. Other rows it reads by words, and shifts these by up to three bytes.
  template <class SharedRows>
  __device__ __forceinline__ void load(const SharedRows& box, int r, int column) {
    constexpr int kHalo = (L > R ? L : R) * int(sizeof(T)), kMost = N * int(sizeof(T));
    constexpr int kWanted = kHalo <= 4 ? 4 : kHalo <= 8 ? 8 : 16, kChunk = lane_chunk(N, sizeof(T));
    constexpr int kWide = (kWanted < kMost ? kWanted : kMost) / int(sizeof(T)), H = kWide < kChunk ? kWide : kChunk;
    constexpr int kBefore = (L + H - 1) / H * H;
    if constexpr (W::bulk) {
      const T* first = box.row(r) + column;
      unroll<-kBefore, 0, H>([&](auto at) { take<at, H>(first); });
      unroll<0, N, kChunk>([&](auto at) { take<at, kChunk>(first); });
      unroll<N, N + R, H>([&](auto at) { take<at, H>(first); });
    } else {
      constexpr int kPer = kPerWord<T>, kLeft = (L + kPer - 1) / kPer, kCount = kLeft + (N + R + kPer - 1) / kPer;
      const unsigned* first = box.words(r, column) - kLeft;
      const int bits = box.bits(r);
      unroll<0, kCount>([&](auto i) {
        constexpr int at = (i - kLeft) * kPer;
        if constexpr (any_used<kPer>(at)) {
          float values[kPer];
          widen<T>(kPer == 1 ? first[i] : __funnelshift_r(first[i], first[i + 1], bits), values);
          keep<at, kPer>(values);
        }
      });
    }
  }
  __device__ __forceinline__ float value(int p, int j) const { return v[p * w.stride + j * w.dilation_x]; }

 private:
  template <int at, int H>
  __device__ __forceinline__ void take(const T* first) {
    if constexpr (any_used<H>(at)) {
      float values[H];
      widen_pack<H>(first + at, values);
      keep<at, H>(values);
    }
  }
  template <int at, int H>
  __device__ __forceinline__ void keep(const float (&values)[H]) {
#pragma unroll
    for (int i = 0; i < H; ++i)
      if (at + i >= -L && at + i < N + R) v[L + at + i] = values[i];
  }
};

// The values of columns 32 apart. A warp reads neighbouring ones at once, in unaligned rows of 4-byte values and where
// a block computes one channel after the other.
template <typename T, class W>
struct SpreadRow {
  static constexpr PlaneWindow w = W::window;
  static constexpr int N = W::shape.lane_values, pixel = W::shape.pixel;
  float v[w.kw][N];

  static __device__ __forceinline__ int column(int lane, int p) { return (lane + 32 * p) * pixel; }

  template <class SharedRows>
  __device__ __forceinline__ void load(const SharedRows& box, int r, int column) {
    const T* first = box.row(r) + column;
#pragma unroll
    for (int j = 0; j < w.kw; ++j)
#pragma unroll
      for (int p = 0; p < N; ++p) v[j][p] = widen_one(first[32 * p * pixel * w.stride + j * w.dilation_x - w.left()]);
  }
  __device__ __forceinline__ float value(int p, int j) const { return v[j][p]; }
};

// The values of words 32 apart. All words of a lane hold the same channels.
template <typename T, class W>
struct WordRow {
  static constexpr PlaneWindow w = W::window;
  static constexpr int N = W::shape.lane_values, per = kPerWord<T>;
  float v[w.kw][N];

  static __device__ __forceinline__ int column(int lane, int p) { return (lane + 32 * (p / per)) * per + p % per; }

  template <class SharedRows>
  __device__ __forceinline__ void load(const SharedRows& box, int r, int column) {
    const T* first = box.row(r) + column - w.left();
#pragma unroll
    for (int j = 0; j < w.kw; ++j)
#pragma unroll
      for (int p = 0; p < N; p += per) widen_pack<per>(first + 32 * p + j * w.dilation_x, v[j] + p);
  }
  __device__ __forceinline__ float value(int p, int j) const { return v[j][p]; }
};

template <typename T, class W>
using LaneRow = std::conditional_t<W::window.by_words, WordRow<T, W>,
                                   std::conditional_t<W::spread, SpreadRow<T, W>, NeighbourRow<T, W>>>;

// Adds a row of the window to the sums of a row of outputs. Output p has window p % kWindows.
template <class W, int kWindows = 1, class Row, int N>
__device__ __forceinline__ void add_row(const Row& row, const float* tap, float (&sum)[N]) {
  constexpr int kTaps = W::window.kh * W::window.kw;
#pragma unroll
  for (int p = 0; p < N; ++p)
#pragma unroll
    for (int j = 0; j < W::window.kw; ++j) sum[p] = fma(tap[p % kWindows * kTaps + j], row.value(p, j), sum[p]);
}

// Stores a lane's columns of its warp's rows.
template <typename T, typename O, class W>
struct LaneOutput {
  O* row;       // output column 0 of the warp's first row
  int y, tile;  // the first row, the tile's first column
  float bias;
  unsigned char* stage;  // two waiting rows of the warp

  // Stores row o.
  template <int N>
  __device__ __forceinline__ void store(const PlaneArgs& a, int o, const float (&sum)[N]) const {
    const int lane = threadIdx.x % 32;
    const Pack<N, O> pack = finished<W::bias, O>(sum, bias);
    O* to = row + o * a.planes.out_stride_h + (W::groups ? 0 : tile);
    const bool inside = y + o < a.planes.out_h;
    const int first = max(-tile, 0), last = min(32 * N, a.planes.out_w - tile);
    if constexpr (W::window.by_words) {
      // A lane's words are whole pixels apart.
      constexpr int kPer = kPerWord<O>, kPixels = 32 * kPer / W::window.channel_windows;
      O* const first_word = to + W::offset(tile + lane * kPer, a.out_pixel);
#pragma unroll
      for (int p = 0; p < N; p += kPer) {
        Pack<kPer, O> word;
        memcpy(&word, pack.v + p, sizeof(word));
        store_pack_if(inside && lane * kPer + 32 * p < last, first_word + p / kPer * kPixels * a.out_pixel, word);
      }
    } else if constexpr (W::aligned && !W::shape.is_staged) {
      const int at = W::groups ? W::offset(tile + lane * N, a.out_pixel) : lane * N;
      store_pack_if(inside && lane * N < last, to + at, pack);
    } else if constexpr (!W::shape.is_staged) {
#pragma unroll
      for (int p = 0; p < N; ++p)
        if (inside && lane + 32 * p >= first && lane + 32 * p < last) to[lane + 32 * p] = pack.v[p];
    } else if (inside) {
      constexpr int kCount = N * int(sizeof(O)) / 4, kStep = W::spread ? 32 : 1;
      const auto put = [&](unsigned* words) {
        unsigned w[kCount];
        memcpy(w, &pack, sizeof(w));
#pragma unroll
        for (int i = 0; i < kCount; ++i) words[(W::spread ? lane : kCount * lane) + kStep * i] = w[i];
      };
      store_unaligned<32 * N>(to, first, last, tile <= 0 || tile + 32 * N >= a.planes.out_w,
                              stage + o % 2 * W::shape.stage_bytes(sizeof(O)), put);
    }
  }
};

// Windows of up to kTapsAtOnce taps, in registers: all rows and taps are unrolled. The lane stores a row of outputs as
// soon as it is complete, so that only kh rows of sums are alive. `top`: the box's row that the warp reads first;
// `column`: the lane's first.
template <typename T, class W, int kWindows = 1, class SharedRows, typename O>
__device__ __forceinline__ void sum_unrolled(const PlaneArgs& a, const SharedRows& box, int top, int column,
                                             const LaneOutput<T, O, W>& out,
                                             const float (&tap)[kWindows * W::window.kh * W::window.kw]) {
  constexpr PlaneTileShape shape = W::shape;
  constexpr int N = shape.lane_values;
  float sum[shape.rows][N];
  unroll<0, (shape.rows - 1) * W::window.stride + W::window.rows()>([&](auto r) {
    LaneRow<T, W> row;
    row.load(box, top + r, column);
    unroll<0, shape.rows>([&](auto o) {
      // Input row r is row i of the window over output row o.
      constexpr int below = decltype(r)::value - o * W::window.stride, i = below / W::window.dilation_y;
      if constexpr (below >= 0 && below % W::window.dilation_y == 0 && i < W::window.kh) {
        if constexpr (i == 0) {
#pragma unroll
          for (int p = 0; p < N; ++p) sum[o][p] = 0;
        }
        add_row<W, kWindows>(row, tap + i * W::window.kw, sum[o]);
        if constexpr (i == W::window.kh - 1) out.store(a, o, sum[o]);
      }
    });
  });
}

// Words of a group's channels. A lane loads the windows of its channels from shared memory, where channels are
// innermost.
template <typename T, class W, class SharedRows, typename O>
__device__ __forceinline__ void sum_words(const PlaneArgs& a, const SharedRows& box, int top, int column,
                                          const LaneOutput<T, O, W>& out, const float* taps) {
  static_assert(std::is_same_v<T, O> && W::window.stride == 1, "a lane's outputs are words as its inputs are");
  constexpr int kPer = kPerWord<T>, kCount = W::window.kh * W::window.kw;
  const float* from = taps + threadIdx.x % 32 * kPer % W::window.channel_windows;
  float tap[kPer * kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const Pack<kPer, float> channels = load_pack<kPer>(from + i * W::window.channel_windows);
#pragma unroll
    for (int e = 0; e < kPer; ++e) tap[e * kCount + i] = channels.v[e];
  }
  sum_unrolled<T, W, kPer>(a, box, top, column, out, tap);
}

// Adds `count` rows of the window to all rows of the warp. `top`, `taps`: the first of the box's and the window's rows.
template <typename T, class W, int count, class SharedRows, int rows, int N>
__device__ __forceinline__ void add_group(const SharedRows& box, int top, int column, const float* taps,
                                          float (&sum)[rows][N]) {
  constexpr int kPitch = tile_tap_pitch(W::window.kw);
  float tap[count][kPitch];
#pragma unroll
  for (int i = 0; i < count; ++i)
#pragma unroll
    for (int j = 0; j < W::window.kw; j += 4)
      *reinterpret_cast<float4*>(tap[i] + j) = *reinterpret_cast<const float4*>(taps + i * kPitch + j);
  unroll<0, (rows - 1) * W::window.stride + (count - 1) * W::window.dilation_y + 1>([&](auto r) {
    LaneRow<T, W> row;
    row.load(box, top + r, column);
    unroll<0, count>([&](auto i) {
      constexpr int at = decltype(r)::value - i * W::window.dilation_y, o = at / W::window.stride;
      if constexpr (at >= 0 && at % W::window.stride == 0 && o < rows) add_row<W>(row, tap[i], sum[o]);
    });
  });
}

// Larger windows, one group of G rows after the other: a group's taps fit into the 63 uniform registers. The lane reads
// the tile's rows once for each group, and keeps the sums of all the warp's rows.
//
//   group 0: window rows 0 .. G - 1     sum[o] += rows o .. o + G - 1 of the tile
//   group 1: window rows G .. 2 G - 1   sum[o] += rows o + G .. o + 2 G - 1
//
// float32 4096^2, one NVIDIA H200, us:
//
//                                                        9x9  11x11  13x13  15x15
//     taps in uniform registers                           67     92    121    150
//     in vector registers, loaded for each row of tile    77    119    158    224
//
// With more than 81 taps the groups run in a loop, whose code stays in the instruction cache. us in a loop and
// unrolled: 15x15 150, 192; 8x8 56, 51.
template <typename T, class W, class SharedRows, int rows, int N>
__device__ __forceinline__ void add_groups(const SharedRows& box, int top, int column, const float* taps,
                                           float (&sum)[rows][N]) {
  constexpr PlaneWindow w = W::window;
  constexpr int G = tap_group(w.kh, w.kw), kRemainder = w.kh % G, kUnrolled = w.kh * w.kw > 81 ? 1 : w.kh;
  if constexpr (kRemainder > 0) add_group<T, W, kRemainder>(box, top, column, taps, sum);
#pragma unroll kUnrolled
  for (int first = kRemainder; first < w.kh; first += G)
    add_group<T, W, G>(box, top + first * w.dilation_y, column, taps + first * tile_tap_pitch(w.kw), sum);
}

template <typename T, class W, class SharedRows, typename O>
__device__ __forceinline__ void sum_in_groups(const PlaneArgs& a, const SharedRows& box, int top, int column,
                                              const LaneOutput<T, O, W>& out, const float* taps) {
  constexpr PlaneTileShape shape = W::shape;
  float sum[shape.rows][shape.lane_values] = {};
  add_groups<T, W>(box, top, column, taps, sum);
  unroll<0, shape.rows>([&](auto o) { out.store(a, o, sum[o]); });
}

// Channels that have a window each: output e of every lane is of channel (e + first) % channel_windows. `first` is 0
// unless the grid starts within a pixel left of the outputs.
template <typename T, class W, class SharedRows, typename O>
__device__ __forceinline__ void sum_pixels(const PlaneArgs& a, const SharedRows& box, int top, int column,
                                           const LaneOutput<T, O, W>& out, const float* taps) {
  constexpr PlaneWindow w = W::window;
  const int first = w.channel_windows - a.lead % w.channel_windows;
  float tap[w.channel_windows * w.kh * w.kw];
#pragma unroll
  for (int e = 0; e < w.channel_windows; ++e)
#pragma unroll
    for (int i = 0; i < w.kh * w.kw; ++i)
      tap[e * w.kh * w.kw + i] =
          taps[((e + first) % w.channel_windows * w.kh + i / w.kw) * tile_tap_pitch(w.kw) + i % w.kw];
  sum_unrolled<T, W, w.channel_windows>(a, box, top, column, out, tap);
}

// One channel after the other. A channel's outputs replace its inputs as soon as all warps have read the inputs.
// Finally the box holds whole pixels: aligned rows leave as vectors of 16 bytes, other rows value by value.
template <typename T, class W, class SharedRows, typename O>
__device__ __forceinline__ void sum_channels(const PlaneArgs& a, const SharedRows& box, int top, int column,
                                             const LaneOutput<T, O, W>& out, const float* taps) {
  static_assert(std::is_same_v<T, O> && W::window.stride == 1, "outputs stand where inputs stood");
  constexpr PlaneTileShape shape = W::shape;
  constexpr PlaneWindow w = W::window;
  constexpr int C = w.channel_windows, N = shape.lane_values;
  const int first_channel = C - a.lead % C;
#pragma unroll 1
  for (int c = 0; c < C; ++c) {
    float sum[shape.rows][N] = {};
    add_groups<T, W>(box, top, column + c, taps + (c + first_channel) % C * (w.kh * tile_tap_pitch(w.kw)), sum);
    __syncthreads();
#pragma unroll
    for (int o = 0; o < shape.rows; ++o)
#pragma unroll
      for (int p = 0; p < N; ++p) box.row(top + o)[column + c + 32 * p * C] = from_acc<T>(sum[o][p]);
  }
  __syncwarp();
  const int first = max(-out.tile, 0), last = min(shape.covered(), a.planes.out_w - out.tile);
  const int lane = threadIdx.x % 32;
  if constexpr (W::aligned) {
    constexpr int kWord = 16 / int(sizeof(T)), kWords = shape.covered() / kWord;
    unroll<0, shape.rows * kWords, 32>([&](auto i) {
      const int e = i + lane, o = e / kWords, x = e % kWords * kWord;
      const bool inside = (i + 32 <= shape.rows * kWords || e < shape.rows * kWords) && out.y + o < a.planes.out_h;
      if (inside && x < last)
        *reinterpret_cast<uint4*>(out.row + o * a.planes.out_stride_h + out.tile + x) =
            *reinterpret_cast<const uint4*>(box.row(top + o) + shape.pad + x);
    });
  } else {
    for (int o = 0; o < shape.rows && out.y + o < a.planes.out_h; ++o) {
      const T* const from = box.row(top + o) + shape.pad;
      O* const to = out.row + o * a.planes.out_stride_h + out.tile;
#pragma unroll
      for (int x = 0; x < shape.covered(); x += 32)
        if (x + lane >= first && x + lane < last) to[x + lane] = from[x + lane];
    }
  }
}

}  // namespace torch_conv::direct2d
