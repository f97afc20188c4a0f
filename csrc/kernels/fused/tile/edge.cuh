// Computes pixels near an edge of the image again, where windows of a stage extend beyond it. Stages run one after
// another, and each extends its own input.
//
// clang-format off
//        margin                         A block takes the parts of its tile in the frame of `margin` pixels
//      +-------------------------+      piece by piece, at most kPiece pixels long. For each stage it makes in shared
//      |  piece  :  piece  :     |      memory, where the box was:
//      |......................   |
//      | p :                 :   |      - sums along x of the rows under the stage's windows,
//      | i :                 :   |      - sums of those along y, and the pointwise step: the piece and the halo of
//      | e :                 :   |        later stages, as far as it is inside the image.
//      |...:.................:   |
//      |                         |
//      +-------------------------+
// clang-format on
//
// A thread takes a pixel of pieces of any shape. With lanes along the longer side 4096^2 structure tensors of 5 took 95
// us instead of 81 (one NVIDIA H200). The code is small, and runs in few blocks.
#pragma once

#include <climits>
#include <type_traits>

#include "core/cuda/extend.cuh"
#include "kernels/fused/params.h"
#include "kernels/fused/shared/stages.cuh"

namespace torch_conv::fused {

// Rows and columns [y0, y1) x [x0, x1).
struct Rect {
  int y0, x0, y1, x1;
  __device__ int h() const { return y1 - y0; }
  __device__ int w() const { return x1 - x0; }
  __device__ int size() const { return h() * w(); }
  __device__ int index(int y, int x) const { return (y - y0) * w() + x - x0; }
  __device__ Rect grown(int by) const { return {y0 - by, x0 - by, y1 + by, x1 + by}; }
  __device__ Rect inside(const Rect& o) const { return {max(y0, o.y0), max(x0, o.x0), min(y1, o.y1), min(x1, o.x1)}; }
};

// The image of a tile. For a shard it is the shard and as many rows of its neighbours as stages read: the launch offers
// no others. No output's windows extend beyond those rows.
template <class Rows>
struct WholeImage {
  const Args& a;
  Rows rows;
  static constexpr bool kShard = std::is_same_v<Rows, ShardRows>;

  __device__ __forceinline__ int top() const {
    if constexpr (kShard) return -int(rows.peers.above.rows);
    else return 0;
  }
  __device__ __forceinline__ int bottom() const {
    if constexpr (kShard) return a.planes.in_h + int(rows.peers.below.rows);
    else return a.planes.in_h;
  }
  __device__ __forceinline__ Rect rect() const { return {top(), 0, bottom(), a.planes.in_w}; }
  // Whether a part of `area` is nearer than `by` to an edge.
  __device__ __forceinline__ bool near_edge(const Rect& area, int by) const {
    return area.x0 < by || area.y0 < top() + by || area.x1 > a.planes.in_w - by || area.y1 > bottom() - by;
  }
  // Whether the rows [y0, y1) extend into neighbour shards.
  __device__ __forceinline__ bool reads_peers(int y0, int y1) const {
    return kShard && ((y0 < 0 && top() < 0) || (y1 > a.planes.in_h && bottom() > a.planes.in_h));
  }
};

constexpr int kNothing = INT_MIN;
__device__ __forceinline__ int mapped(int i, int n, Border border) {
  const int m = map_index(i, n, border);
  return m < 0 ? kNothing : m;
}

// A row or column of the image, or kNothing.
template <class Image>
__device__ __forceinline__ int mapped_row(const Image& image, int y) {
  const int m = mapped(y - image.top(), image.bottom() - image.top(), image.a.border);
  return m == kNothing ? m : m + image.top();
}
template <class Image>
__device__ __forceinline__ int mapped_column(const Image& image, int x) {
  return mapped(x, image.a.planes.in_w, image.a.border);
}

// A stage's input: the image, or the previous stage's output on a rectangle. Positions may be outside the image.
template <class Image, typename T>
struct ImageSource {
  const T* plane;
  const Image& image;
  __device__ int row(int y) const { return mapped_row(image, y); }
  __device__ int column(int x) const { return mapped_column(image, x); }
  __device__ float at(int, int row, int column) const {
    const PlaneGeometry& planes = image.a.planes;
    return to_acc<float>(image.rows.row(plane, planes.in_stride_h, row, planes.in_h)[column]);
  }
};

template <class Image>
struct MadeSource {
  const float* made;
  Rect rect;
  const Image& image;
  // A circular image was made beyond its edges too: filtering commutes with repeating.
  __device__ int row(int y) const { return image.a.border == Border::circular ? y : mapped_row(image, y); }
  __device__ int column(int x) const { return image.a.border == Border::circular ? x : mapped_column(image, x); }
  __device__ float at(int channel, int row, int column) const {
    return made[channel * rect.size() + rect.index(row, column)];
  }
};

// Runs the stages from the one that makes `rect` on; it reads `channels` channels. `memory` is free shared memory.
template <typename O, class Image, class Source, class Stage, class... Later>
__device__ void run_stages(const Image& image, const Source& in, int channels, Rect piece, const float* tap, O* out,
                           float* memory) {
  const Args& a = image.a;
  constexpr int K = Stage::K, R = K / 2;
  constexpr bool kLast = sizeof...(Later) == 0;
  Rect rect = piece.grown(kHalo<Later...>);
  if (a.border != Border::circular || kFirstReadsZeros<Later...>) rect = rect.inside(image.rect());

  float* sums = memory;
  const Rect under{rect.y0 - R, rect.x0, rect.y1 + R, rect.x1};
  if constexpr (Stage::windows > 0) {
    // Row sums, window by window. With `skip` the sums along y leave out rows outside the image.
    for (int e = threadIdx.x; e < under.size() * Stage::windows; e += 32 * TileShape::warps) {
      const int i = e / under.size(), at = e % under.size();
      const int y = in.row(under.y0 + at / under.w()), x = under.x0 + at % under.w() - R;
      float s = 0;
#pragma unroll
      for (int j = 0; j < K; ++j) {
        const int column = in.column(x + j);
        if (column == kNothing && a.border == Border::skip) continue;
        const float v = y == kNothing || column == kNothing ? a.value : in.at(i % channels, y, column);
        s = Compute<Stage>::add(tap, Stage::first_tap(i) + j, v, s, false);
      }
      sums[e] = s;
    }
    __syncthreads();
  }
  float* made = memory + under.size() * Stage::windows;
  for (int e = threadIdx.x; e < rect.size(); e += 32 * TileShape::warps) {
    const int y = rect.y0 + e / rect.w(), x = rect.x0 + e % rect.w();
    float result[Stage::outputs];
    if constexpr (Stage::windows > 0) {
      float s[Stage::windows];
      const bool fits = !image.near_edge({y, x, y + 1, x + 1}, R);
      const bool zero = a.border == Border::zero_output && !fits;
#pragma unroll
      for (int i = 0; i < Stage::windows; ++i) {
        const float* from = sums + i * under.size() + e;
        s[i] = 0;
#pragma unroll
        for (int j = 0; j < K; ++j) {
          if (a.border == Border::skip && (y + j - R < image.top() || y + j - R >= image.bottom())) continue;
          s[i] = Compute<Stage>::add(tap, Stage::first_tap(i) + K + j, from[j * rect.w()], s[i], false);
        }
        if (zero) s[i] = 0;
      }
      const float pixel = Stage::kind == Point::sharpen ? in.at(0, in.row(y), in.column(x)) : 0.f;
      apply_point<Stage::kind, Stage::windows>(s, pixel, a.number, result);
      if (Stage::kind == Point::sharpen && zero) result[0] = 0;
    } else {
      const auto m = [&](int dy, int dx) {
        const bool inside =
            y + dy >= image.top() && y + dy < image.bottom() && unsigned(x + dx) < unsigned(a.planes.in_w);
        return inside ? in.at(0, y + dy, x + dx) : 0.f;
      };
      result[0] = thinned(m, in.at(1, y, x), in.at(2, y, x));
    }
#pragma unroll
    for (int o = 0; o < Stage::outputs; ++o) {
      if constexpr (kLast) {
        constexpr int kStride = Stage::stride;
        if (y % kStride == 0 && x % kStride == 0)
          out[o * a.stride_output + int64_t(y / kStride) * a.planes.out_stride_h + x / kStride] =
              from_acc<O>(result[o]);
      } else {
        made[o * rect.size() + e] = result[o];
      }
    }
  }
  __syncthreads();
  if constexpr (!kLast) {
    // The memory of all stages is contiguous (Pipeline::edge_floats).
    const MadeSource<Image> next{made, rect, image};
    run_stages<O, Image, MadeSource<Image>, Later...>(image, next, Stage::outputs, piece, tap + Stage::taps, out,
                                                      made + Stage::outputs * rect.size());
  }
}

template <class P, typename T, typename O>
struct EdgeStages;
template <class... Stages, typename T, typename O>
struct EdgeStages<Pipeline<Stages...>, T, O> {
  // Not inlined: all pieces share one copy, apart from the hot code.
  template <class Image>
  static __device__ __noinline__ void piece(Image image, const TapsOf<Pipeline<Stages...>>& taps, const T* plane,
                                            O* out, float* memory, Rect rect) {
    const ImageSource<Image, T> source{plane, image};
    run_stages<O, Image, ImageSource<Image, T>, Stages...>(image, source, 1, rect, taps.v, out, memory);
  }
};

// The frame's part of `area`. All threads of the block; a barrier before it where `memory` was in use.
template <class P, typename T, typename O, int kPiece, class Image>
__device__ __forceinline__ void mend_edges(const Image& image, const TapsOf<P>& taps, const T* plane, O* out,
                                           float* memory, const Rect& area) {
  const Rect inner = image.rect().grown(-image.a.margin);
  // The rows above, the rows below, and the columns left and right between them.
  const int top = min(max(area.y0, inner.y0), area.y1), bottom = max(min(area.y1, inner.y1), top);
  const int left = min(max(area.x0, inner.x0), area.x1), right = max(min(area.x1, inner.x1), left);
#pragma unroll 1
  for (int i = 0; i < 4; ++i) {
    const Rect part = i == 0   ? Rect{area.y0, area.x0, top, area.x1}
                      : i == 1 ? Rect{bottom, area.x0, area.y1, area.x1}
                      : i == 2 ? Rect{top, area.x0, bottom, left}
                               : Rect{top, right, bottom, area.x1};
    for (int y = part.y0; y < part.y1 && part.x0 < part.x1; y += kPiece)
      for (int x = part.x0; x < part.x1; x += kPiece)
        EdgeStages<P, T, O>::piece(image, taps, plane, out, memory,
                                   {y, x, min(y + kPiece, part.y1), min(x + kPiece, part.x1)});
  }
}

}  // namespace torch_conv::fused
