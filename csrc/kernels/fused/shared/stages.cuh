// The computation of stages, in registers.
//
// A stage turns rows of its input channels into rows of its output channels. `row_pass` makes the row sums of one input
// row, and a ring keeps those of K rows. `column_pass` makes an output row of the ring. StageChain passes each input
// row through the stages until a stage lacks rows for an output. All loops are unrolled, so that rings are registers.
// Later stages read columns beyond a lane's own: the lane makes them too, or neighbouring lanes pass them.
#pragma once

#include "core/border.h"
#include "core/cuda/device.cuh"
#include "core/point.h"
#include "kernels/fused/stages.h"

namespace torch_conv::fused {

template <class Stage>
struct Compute;

template <int K, int kWindows, Point P, class Known, bool kShared, int kStride>
struct Compute<Windows<K, kWindows, P, Known, kShared, kStride>> {
  using Stage = Windows<K, kWindows, P, Known, kShared, kStride>;
  static constexpr int windows = Stage::windows, mid = Stage::mid, outputs = Stage::outputs, stride = kStride;

  // sum + tap * v. At the start of a chain, whose sum is 0, known taps need no addition: only a zero's sign can differ.
  __device__ __forceinline__ static float add(const float* tap, int i, float v, float sum, bool start) {
    if constexpr (Stage::known) {
      if (start) return Known::tap(i) * v;
      return fmaf(Known::tap(i), v, sum);
    }
    return fmaf(tap[i], v, sum);
  }

  template <int C, int In, int Out>
  __device__ __forceinline__ static void row_pass(const float (&in)[C][In], float (&row)[mid][Out], const float* tap) {
#pragma unroll
    for (int i = 0; i < windows; ++i)
#pragma unroll
      for (int x = 0; x < Out; ++x) {
        float s = 0;
#pragma unroll
        for (int j = 0; j < K; ++j) s = add(tap, Stage::first_tap(i) + j, in[i % C][x * stride + j], s, j == 0);
        row[i][x] = s;
      }
    if constexpr (P == Point::sharpen)
#pragma unroll
      for (int x = 0; x < Out; ++x) row[windows][x] = in[0][x + K / 2];
  }

  // Row sums of K columns, for as many channels as windows.
  __device__ __forceinline__ static void sums_of(const float (&in)[windows][K], float (&row)[mid][1],
                                                 const float* tap) {
    row_pass(in, row, tap);
  }

  // Makes the output row whose window ends with row r.
  template <int Out>
  __device__ __forceinline__ static void column_pass(const float (&ring)[K][mid][Out], int r,
                                                     float (&out)[outputs][Out], const float* tap, float number) {
#pragma unroll
    for (int x = 0; x < Out; ++x) {
      float sum[windows], made[outputs];
#pragma unroll
      for (int i = 0; i < windows; ++i) {
        float s = 0;
#pragma unroll
        for (int j = 0; j < K; ++j) s = add(tap, Stage::first_tap(i) + K + j, ring[(r + 1 + j) % K][i][x], s, j == 0);
        sum[i] = s;
      }
      apply_point<P, windows, false>(sum, ring[(r + 1 + K / 2) % K][mid - 1][x], number, made);
#pragma unroll
      for (int o = 0; o < outputs; ++o) out[o][x] = made[o];
    }
    if constexpr (P == Point::l2) square_roots(out[0]);
  }
};

template <>
struct Compute<Thin> {
  template <int In>
  __device__ __forceinline__ static void row_pass(const float (&in)[3][In], float (&row)[3][In], const float*) {
#pragma unroll
    for (int c = 0; c < 3; ++c)
#pragma unroll
      for (int x = 0; x < In; ++x) row[c][x] = in[c][x];
  }

  __device__ __forceinline__ static void sums_of(const float (&)[3][3], float (&row)[3][1], const float*) {
    row[0][0] = row[1][0] = row[2][0] = 0;
  }

  template <int In, int Out>
  __device__ __forceinline__ static void column_pass(const float (&ring)[3][3][In], int r, float (&out)[1][Out],
                                                     const float*, float) {
#pragma unroll
    for (int x = 0; x < Out; ++x) {
      const auto m = [&](int dy, int dx) { return ring[(r + 2 + dy) % 3][0][x + 1 + dx]; };
      const float gx = ring[(r + 2) % 3][1][x + 1], gy = ring[(r + 2) % 3][2][x + 1];
      out[0][x] = thinned<false>(m, gx, gy);
    }
    square_roots(out[0]);
  }
};

// Every lane's `Out` columns, and `R` more on either side from its neighbour lanes, of the first `kWide` channels. The
// lanes at a warp's ends get wrong columns: their outputs are not stored.
template <int R, int kWide, int C, int Out>
__device__ __forceinline__ void with_neighbours(const float (&row)[C][Out], float (&wide)[C][Out + 2 * R]) {
  static_assert(R <= Out);
#pragma unroll
  for (int c = 0; c < C; ++c) {
#pragma unroll
    for (int x = 0; x < Out; ++x) wide[c][R + x] = row[c][x];
#pragma unroll
    for (int i = 0; i < R && c < kWide; ++i) {
      wide[c][i] = __shfl_up_sync(~0u, row[c][Out - R + i], 1);
      wide[c][R + Out + i] = __shfl_down_sync(~0u, row[c][i], 1);
    }
  }
}

// A warp's position in the image, and the extension of a stage's rows beyond the image for the next stage.
struct Surroundings {
  int x, y;  // the image's pixel under a lane's first column and the warp's first row of the last stage
  int h, w;
  Border border;  // circular: nothing is extended, because the box was extended for all stages
  float value;
};

static_assert(kBorders == 7, "a border that repeats columns needs a line in extend_columns");

// Fills the columns of a row just outside the image, R on either side. The row's `Side` outer columns on either side
// are halos. kWhole: the image's width is a multiple of a lane's columns. Columns are registers, which no index of
// core/border.h can select: each border's column is named.
template <int R, int Side, bool kWhole, int C, int W>
__device__ __forceinline__ void extend_columns(float (&row)[C][W], int first, int w, Border border, float value) {
  const auto replace = [&](bool here, float& to, float last, float reflect, float symmetric) {
    const float v = border == Border::replicate   ? last
                    : border == Border::reflect   ? reflect
                    : border == Border::symmetric ? symmetric
                                                  : value;
    to = here ? v : to;
  };
#pragma unroll
  for (int c = 0; c < C; ++c)
#pragma unroll
    for (int d = 1; d <= R; ++d) {
      replace(first == -Side, row[c][Side - d], row[c][Side], row[c][Side + d], row[c][Side + d - 1]);
#pragma unroll
      for (int end = kWhole ? W - Side : Side + 1; end <= W - (kWhole ? Side : d); ++end) {
        const auto at = [&](int i) { return row[c][i < 0 ? 0 : i]; };  // never needed left of the row
        replace(first + end == w, row[c][end + d - 1], at(end - 1), at(end - 1 - d), at(end - d));
      }
    }
}

// Rows of the first stage's columns become rows of the last stage's `Out` columns. kHaloLanes: a lane makes its own
// columns only, and neighbour lanes pass it the others that later stages read. Else the lane makes those too.
template <bool kHaloLanes, bool kFirst, int Out, class... Stages>
struct StageChain;

template <bool kHaloLanes, bool kFirst, int Out>
struct StageChain<kHaloLanes, kFirst, Out> {};

template <bool kHaloLanes, bool kFirst, int Out, class Stage, class... Later>
struct StageChain<kHaloLanes, kFirst, Out, Stage, Later...> {
  static constexpr int K = Stage::K, R = K / 2;
  static constexpr int columns = Out + (kHaloLanes ? 0 : 2 * kHalo<Later...>);  // that this stage makes
  float ring[K][Stage::mid][Stage::widen(columns)];
  StageChain<kHaloLanes, false, Out, Later...> later;

  // Takes row r, which unrolled loops know at compile time. `store` gets the last stage's rows. kEdge: the warp's
  // windows may extend beyond the image.
  template <bool kEdge, bool kWhole, int C, int In, class Store>
  __device__ __forceinline__ void row(int r, const float (&in)[C][In], const float* tap, float number,
                                      const Surroundings& at, const Store& store) {
    Compute<Stage>::row_pass(in, ring[r % K], tap);
    if (r < K - 1 || (r - (K - 1)) % Stage::stride != 0) return;
    float out[Stage::outputs][columns];
    if constexpr (kEdge && !kFirst) down_at_edge(r, out, tap, number, at);
    else Compute<Stage>::column_pass(ring, r, out, tap, number);
    r = (r - (K - 1)) / Stage::stride;
    if constexpr (sizeof...(Later) == 0) {
      store(r, out);
    } else {
      using Next = First<Later...>;
      constexpr int kRadius = Next::K / 2, kSide = kHaloLanes ? kRadius : kHalo<Later...>;
      float wide[Stage::outputs][Out + 2 * kSide];
      if constexpr (kHaloLanes) with_neighbours<kRadius, Next::neighbours(Stage::outputs)>(out, wide);
      else copy(out, wide);
      if constexpr (kEdge) {
        const bool zeros = Next::reads_zeros_outside;
        const Border border = zeros ? Border::constant : at.border;
        if (border != Border::circular)
          extend_columns<kRadius, kSide, kWhole>(wide, at.x - kSide, at.w, border, zeros ? 0.f : at.value);
      }
      later.template row<kEdge, kWhole>(r, wide, tap + Stage::taps, number, at, store);
    }
  }

 private:
  template <int C, int W>
  __device__ __forceinline__ static void copy(const float (&from)[C][W], float (&to)[C][W]) {
#pragma unroll
    for (int c = 0; c < C; ++c)
#pragma unroll
      for (int x = 0; x < W; ++x) to[c][x] = from[c][x];
  }

  // `column_pass` for windows that may read rows outside the image. Such a row repeats another row of the ring, or
  // holds row sums of the border's value.
  __device__ __forceinline__ void down_at_edge(int r, float (&out)[Stage::outputs][columns], const float* tap,
                                               float number, const Surroundings& at) {
    const Border border = Stage::reads_zeros_outside ? Border::constant : at.border;
    const int first = at.y + r - (K - 1) - kHalo<Later...> - R;  // the image's row under the first tap
    if (border == Border::circular || (first >= 0 && first + K <= at.h))
      return Compute<Stage>::column_pass(ring, r, out, tap, number);
    constexpr int W = Stage::widen(columns);
    float outside[Stage::channels][K], sums[Stage::mid][1], rows[K][Stage::mid][W];
#pragma unroll
    for (int c = 0; c < Stage::channels; ++c)
#pragma unroll
      for (int j = 0; j < K; ++j) outside[c][j] = Stage::reads_zeros_outside ? 0.f : at.value;
    Compute<Stage>::sums_of(outside, sums, tap);
#pragma unroll
    for (int j = 0; j < K; ++j) {
      const int from = map_near(first + j, at.h, border), source = from < 0 ? -1 : from - first;
#pragma unroll
      for (int c = 0; c < Stage::mid; ++c)
#pragma unroll
        for (int x = 0; x < W; ++x) {
          float v = sums[c][0];
#pragma unroll
          for (int i = 0; i < K; ++i) v = source == i ? ring[(r + 1 + i) % K][c][x] : v;
          rows[j][c][x] = v;
        }
    }
    Compute<Stage>::column_pass(rows, K - 1, out, tap, number);
  }
};

// The StageChain of a pipeline.
template <class P, bool kHaloLanes, int Out>
struct StageChainOf;
template <class... Stages, bool kHaloLanes, int Out>
struct StageChainOf<Pipeline<Stages...>, kHaloLanes, Out> {
  using type = StageChain<kHaloLanes, true, Out, Stages...>;
};

}  // namespace torch_conv::fused
