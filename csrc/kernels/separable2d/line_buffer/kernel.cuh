// Both passes of a separable filter of any size, stride, dilation, layout, border and dtype, streaming down a strip.
//
// clang-format off
//     rows of the image        box: 32 rows x span elements          lines: row results x tile columns
//   +---------------------+     +---------------------+               +---------------------+
//   | the next 32 rows    | --> |  in float           | -- row    --> | kept: of the step   | -- column --> 32 rows of
//   | are in registers    |     |                     |    pass       |       before        |    pass       outputs
//   |                     |     |                     |               | new                 |
//   +---------------------+     +---------------------+               +---------------------+
// clang-format on
//
// A thread loads its elements of the next box into registers, and then takes part in the row pass of this one: the
// image's latency overlaps arithmetic. Boxes hold elements that are converted and extended beyond the image's edge, so
// that the passes know neither dtype nor border; only `skip` leaves taps out, near an edge.
//
//     load          lanes over columns, warps over rows: whole lines, whatever their alignment
//     row pass      lanes over rows, warps over segments of a tile row
//     column pass   lanes over columns, warps over groups of rows
//
// A tile row holds pixels of one plane, or of the interleaved channels of an HWC image. A strip computes a row result
// once; steps hand the lines of the windows' overlap on.
//
// Per output: one read, one write, 2 (kw + kh) flops; (kw - 1) dilation elements more a strip's row, kept lines more a
// strip.
#pragma once

#include "kernels/separable2d/line_buffer/params.h"
#include "kernels/separable2d/shared/any_layout.cuh"

namespace torch_conv::separable2d {

// Brings boxes of a strip. load() starts the loads of a box, store() ends them.
//
//     a tile row   0       low                                      high     span
//                  |outside|  inside the image                      |outside|
//
// A lane brings columns lane, lane + 32, ... of those inside, and one of those outside. Registers hold them until
// store(); what they have no room for is read there.
template <typename T>
struct LineLoader {
  using A = acc_t<T>;
  static constexpr int kRows = kLineRows / kLineWarps;   // of a warp
  static constexpr int kAhead = sizeof(A) == 8 ? 3 : 5;  // columns of a lane in registers
  static constexpr int kNowhere = -1;

  const LineParams& p;
  const T* image;     // the block's first channel
  int first;          // pixel of element 0 of a tile row
  int channels_left;  // of the image, from the block's first channel on
  int low, high;
  int lane = threadIdx.x % 32, top = threadIdx.x / 32 * kRows;
  int start;    // where the lane's first column is in a row, of contiguous elements
  int outside;  // where its column outside is
  int row = 0;  // of the image, for row `lane` of the box
  T elements[kAhead][kRows], edge[kRows];

  __device__ __forceinline__ LineLoader(const LineParams& p, const Position& at)
      : p(p),
        image(static_cast<const T*>(p.in.data) + at.n * p.in.stride_n + at.channel * p.in.stride_c),
        first(int(at.x * p.place.stride_x - p.place.pad_x)),
        channels_left(int(min(p.in.c - at.channel, int64_t(kLineWarps)))) {
    const int span = p.tile.span, channels = p.tile.channels;
    low = min(max(-first, 0) * channels, span);
    high = max(min((int(p.in.w) - first) * channels, span), low);
    start = first * int(p.in.stride_w) + lane;
    outside = column_outside(lane);
  }

  __device__ __forceinline__ int count_outside() const { return low + p.tile.span - high; }
  // The element of a tile row that is the i-th one outside.
  __device__ __forceinline__ int element_outside(int i) const { return i < low ? i : high + i - low; }

  // Where element c of a tile row is in a row of the image: of the elements inside, and of the i-th one outside.
  template <typename Map>
  __device__ __forceinline__ int column(int c, Map map) const {
    const int channels = p.tile.channels, pixel = channels == 1 ? c : c / channels, channel = c - pixel * channels;
    const int x = map(first + pixel);
    return x >= 0 && channel < channels_left ? x * int(p.in.stride_w) + channel * int(p.in.stride_c) : kNowhere;
  }
  __device__ __forceinline__ int column_inside(int c) const {
    return column(c, [](int x) { return x; });
  }
  __device__ __forceinline__ int column_outside(int i) const {
    return column(element_outside(i), [&](int x) { return map_index(x, int(p.in.w), p.place.border); });
  }

  // Row top + i of the box in the image. All lanes of a warp.
  __device__ __forceinline__ int image_row(int i) const { return __shfl_sync(~0u, row, top + i); }

  // Rows y to y + count - 1 of the image. Rows that are not there are loaded from the first one, and not stored.
  __device__ __forceinline__ void load(int y, int count) {
    row = lane < count ? map_index(y + lane, int(p.in.h), p.place.border) : kNowhere;
    const T* rows[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) rows[i] = image + int64_t(max(image_row(i), 0)) * int(p.in.stride_h);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int c = 32 * k + lane;
      if (c < low || c >= high) continue;
      const int at = p.tile.contiguous ? start + 32 * k : column_inside(c);
#pragma unroll
      for (int i = 0; i < kRows; ++i) elements[k][i] = rows[i][max(at, 0)];
    }
    if (lane < count_outside()) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) edge[i] = rows[i][max(outside, 0)];
    }
  }

  __device__ __forceinline__ void store(A* box) const {
    const int pitch = p.tile.pitch();
    const A value = A(p.place.border == Border::constant ? p.place.value : 0.0);
    A* const to = box + top * pitch;
    int rows[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) rows[i] = image_row(i);
    const auto put = [&](int c, int i, bool there, T element) {
      to[i * pitch + c] = there && rows[i] >= 0 ? to_acc<A>(element) : value;
    };
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int c = 32 * k + lane;
      if (c < low || c >= high) continue;
      const bool there = p.tile.contiguous || column_inside(c) >= 0;
#pragma unroll
      for (int i = 0; i < kRows; ++i) put(c, i, there, elements[k][i]);
    }
    if (lane < count_outside()) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) put(element_outside(lane), i, outside >= 0, edge[i]);
    }
    if (high <= 32 * kAhead && count_outside() <= 32) return;
    const auto put_late = [&](int c, int at) {
#pragma unroll
      for (int i = 0; i < kRows; ++i)
        put(c, i, at >= 0, image[int64_t(max(rows[i], 0)) * int(p.in.stride_h) + max(at, 0)]);
    };
#pragma unroll 1
    for (int c = max(32 * kAhead, low) + lane; c < high; c += 32) put_late(c, column_inside(c));
#pragma unroll 1
    for (int i = 32 + lane; i < count_outside(); i += 32) put_late(element_outside(i), column_outside(i));
  }
};

// sums[v] += taps[i] * from[(v + i) * step] for i ascending; an element is read once, and window[e % V] is element e.
// Four taps at a time, whose elements are read before: up to kLineBeyond elements behind the last one. A constant step
// is an operand of the loads.
template <int V, typename A, typename Step>
__device__ __forceinline__ void slide(A (&sums)[V], const A* taps, int count, const A* from, Step step) {
  A window[V];
#pragma unroll
  for (int v = 0; v < V - 1; ++v) window[v] = from[v * step];
  for (int left = count;; taps += V, from += V * step) {
#pragma unroll
    for (int u = 0; u < V; u += 4) {
      A next[4], tap[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) next[j] = from[(u + j + V - 1) * step], tap[j] = taps[u + j];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (j > 0 && j >= left) return;
        window[(u + j + V - 1) % V] = next[j];
#pragma unroll
        for (int v = 0; v < V; ++v) sums[v] = fma(tap[j], window[(u + j + v) % V], sums[v]);
      }
      left -= 4;
      if (left <= 0) return;
    }
  }
}

// One of the passes over V neighbouring outputs; elements of the axis are `step` apart, and output 0 begins at position
// `first`. Near an edge `skip` leaves out taps. put(sums, v) takes outputs from v on.
template <bool kSlides, int V, typename A, typename Step, typename Put>
__device__ __forceinline__ void line_pass(const A* taps, int count, const A* from, Step step, bool skip,
                                          const Axis& axis, int first, Put put) {
  const int step_v = int(axis.stride) * step, step_i = int(axis.dilation) * step;
  if (skip && !axis.covers(first, V, count)) {
    constexpr int kFew = 4;
#pragma unroll 1
    for (int v = 0; v < V; v += kFew, from += kFew * step_v, first += kFew * int(axis.stride)) {
      A sums[kFew] = {};
      accumulate_inside(sums, taps, count, axis, first, [&](int w, int i) { return from[w * step_v + i * step_i]; });
      put(sums, v);
    }
    return;
  }
  A sums[V] = {};
  if constexpr (kSlides) slide(sums, taps, count, from, step);
  else accumulate(sums, taps, count, false, [&](int v, int i) { return from[v * step_v + i * step_i]; });
  put(sums, 0);
}

// Writes a column of outputs.
struct LineWriter {
  const LineParams& p;
  const Position& at;
  int x, channel;
  bool fits_x;  // the window is inside the rows of the image

  // V outputs from row y on, of which `rows` are there. `normalized` divides by the weights of the column and the rows.
  template <int V, typename A>
  __device__ __forceinline__ void put(A (&sums)[V], int y, int rows, A column_weight, const A* weights) const {
    const Placement& place = p.place;
    const int first = y * int(place.stride_y) - int(place.pad_y);
    if (place.normalized) {
#pragma unroll
      for (int v = 0; v < V; ++v) sums[v] /= column_weight * weights[v];
    }
    if (place.border == Border::zero_output) {
      const int last = int(p.in.h) - (p.kh - 1) * int(place.dilation_y);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const int top = first + v * int(place.stride_y);
        if (!fits_x || top < 0 || top >= last) sums[v] = 0;
      }
    }
    const int64_t start = at.n * p.out.stride_n + channel * p.out.stride_c + y * p.out.stride_h + x * p.out.stride_w;
    with_type(p.out.dtype, [&](auto zero) {
      using Out = decltype(zero);
      constexpr int64_t kBytes = sizeof(Out);
      char* to = static_cast<char*>(p.out.data) + start * kBytes;
#pragma unroll
      for (int v = 0; v < V; ++v, to += p.out.stride_h * kBytes)
        if (v < rows) *reinterpret_cast<Out*>(to) = from_acc<Out>(sums[v]);
    });
  }
};

// kSlides: stride and dilation are 1 along both axes.
template <typename T, bool kSlides>
__global__ void __launch_bounds__(32 * kLineWarps, line_blocks(kSlides, sizeof(acc_t<T>)))
    separable_line_buffer(const __grid_constant__ LineParams p) {
  using A = acc_t<T>;
  constexpr int V = line_reuse(kSlides, sizeof(A)), kColumnsOfBlock = kLineWarps * V, kPitch = line_pitch(V);
  extern __shared__ __align__(128) unsigned char shared[];
  const LineTile& tile = p.tile;
  const int stride_y = int(p.place.stride_y), pitch = tile.pitch();
  A* const taps_x = reinterpret_cast<A*>(shared);
  A* const taps_y = taps_x + p.taps_x();
  A* const box = taps_y + p.taps_y();
  A* const lines = box + p.box();
  A* const weights = lines + p.lines();

  const Position at = block_position(p, tile.steps * kLineRows);
  for (int i = threadIdx.x; i < p.kw; i += 32 * kLineWarps) taps_x[i] = p.taps.of<A>(p.taps.x, at.n, at.channel)[i];
  for (int i = threadIdx.x; i < p.kh; i += 32 * kLineWarps) taps_y[i] = p.taps.of<A>(p.taps.y, at.n, at.channel)[i];

  const bool skip = p.place.border == Border::skip;
  const Axis axis_x{p.in.w, p.place.stride_x, p.place.dilation_x}, axis_y{p.in.h, stride_y, p.place.dilation_y};
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // Row pass: the warp's segment is V pixels of one channel.
  const int pixel = warp / tile.channels * V, channel = warp % tile.channels;
  const int first_x = (int(at.x) + pixel) * int(axis_x.stride) - int(p.place.pad_x);
  const A* const row = box + lane * pitch + pixel * int(axis_x.stride) * tile.channels + channel;
  A* const results = lines + lane * kPitch + pixel * tile.channels + channel;
  // Column pass: the thread's column, V rows of it.
  const int column = threadIdx.x % kColumnsOfBlock, part = threadIdx.x / kColumnsOfBlock * V;
  const int x = int(at.x) + column / tile.channels, c = int(at.channel) + column % tile.channels;
  const bool stores = column < tile.columns() && x < p.out.w && c < p.out.c;
  const int left = x * int(axis_x.stride) - int(p.place.pad_x);
  const LineWriter writer{p, at, x, c, left >= 0 && left + (p.kw - 1) * axis_x.dilation < p.in.w};

  const int last_y = int(min(at.y + tile.steps * kLineRows, p.out.h));
  const auto first_row = [&](int y) { return y * stride_y - int(p.place.pad_y); };
  // The lines that the outputs of a step need.
  const auto needed = [&](int y) { return tile.lines - max(kLineRows - (last_y - y), 0) * stride_y; };

  __syncthreads();
  A weight = 1;
  if (p.place.normalized && stores) weight = inside_weight(taps_x, p.kw, Axis{p.in.w, 0, axis_x.dilation}, left);

  LineLoader<T> loader(p, at);
  int y = int(at.y), line = 0;       // the box: the step's first output, and its first line
  int next_y = y, next_line = line;  // the next box
  for (bool more = true, there = false;; there = true) {
    if (more) loader.load(first_row(next_y) + next_line, needed(next_y) - next_line);
    if (there) {
      if (lane < needed(y) - line && pixel < tile.pixels) {
        A* const to = results + line * kPitch;
        const auto pass = [&](auto channels) {
          line_pass<kSlides, V>(taps_x, p.kw, row, channels, skip, axis_x, first_x, [&](const auto& sums, int v) {
            int at = v * channels;
#pragma unroll
            for (const A& sum : sums) to[at] = sum, at += channels;
          });
        };
        if (tile.channels == 1) pass(std::integral_constant<int, 1>{});
        else pass(tile.channels);
      }
      if (p.place.normalized && next_y != y && warp == 0)
        weights[lane] = inside_weight(taps_y, p.kh, Axis{p.in.h, 0, axis_y.dilation}, first_row(y + lane));
      __syncthreads();
      if (next_y != y) {
        if (stores && y + part < last_y) {
          const auto put = [&](auto& sums, int v) {
            writer.put(sums, y + part + v, last_y - y - part - v, weight, weights + part + v);
          };
          line_pass<kSlides, V>(taps_y, p.kh, lines + part * stride_y * kPitch + column,
                                std::integral_constant<int, kPitch>{}, skip, axis_y, first_row(y + part), put);
        }
        if (!more) return;
        __syncthreads();
        if (threadIdx.x < tile.columns()) {
          A* to = lines + threadIdx.x;
#pragma unroll 4
          for (int r = 0; r < tile.kept; ++r, to += kPitch) *to = to[kLineRows * stride_y * kPitch];
        }
      }
    }
    loader.store(box);
    __syncthreads();
    y = next_y, line = next_line;
    if (line + kLineRows < needed(y)) next_line = line + kLineRows;
    else next_y = y + kLineRows, next_line = tile.kept, more = next_y < last_y;
  }
}

}  // namespace torch_conv::separable2d
