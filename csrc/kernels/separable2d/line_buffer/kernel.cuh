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
// A tile row holds pixels of one plane, of several narrow planes, or of the interleaved channels of an HWC image. A
// strip computes a row result once: the last lines of a step are the first ones of the next.
//
// Per output: one read, one write, 2 (kw + kh) flops; (kw - 1) dilation elements more a strip's row, kept lines more a
// strip.
#pragma once

#include "kernels/separable2d/line_buffer/params.h"
#include "kernels/separable2d/shared/any_layout.cuh"

namespace torch_conv::separable2d {

// The sample and the channel of a tile's plane, or of the first of its interleaved channels.
struct LinePlane {
  int64_t n, c;
  bool there;
};
__device__ __forceinline__ LinePlane plane_of(const LineParams& p, const Position& at, int plane) {
  if (p.tile.planes == 1) return {at.n, at.channel, true};
  const int64_t i = at.channel * p.tile.planes + plane;
  return {i / p.in.c, i % p.in.c, i < p.in.n * p.in.c};
}

// Brings boxes of a strip. load() starts the loads of a box, store() ends them. A lane brings columns lane, lane + 32,
// ... of a tile row; registers hold them until store(), which reads the rest.
template <typename T>
struct LineLoader {
  using A = acc_t<T>;
  static constexpr int kRows = kLineRows / kLineWarps;   // of a warp
  static constexpr int kAhead = sizeof(A) == 8 ? 3 : 5;  // columns of a lane in registers
  static constexpr int kNowhere = -1;

  const LineParams& p;
  const T* image;  // the first plane
  int* columns;    // in shared memory: where the elements of a tile row are in a row of the image
  bool whole;      // they lie side by side, all inside the image
  int lane = threadIdx.x % 32, top = threadIdx.x / 32 * kRows;
  int start;    // of the lane in a whole tile row
  int row = 0;  // of the image, for row `lane` of the box
  T elements[kAhead][kRows];

  // All threads; a barrier follows.
  __device__ __forceinline__ LineLoader(const LineParams& p, const Position& at, int* columns)
      : p(p), columns(columns) {
    const LineTile& tile = p.tile;
    const LinePlane first = plane_of(p, at, 0);
    const int64_t origin = first.n * p.in.stride_n + first.c * p.in.stride_c;
    const int left = int(at.x * p.place.stride_x - p.place.pad_x), channels = tile.channels;
    image = static_cast<const T*>(p.in.data) + origin;
    whole = tile.contiguous && left >= 0 && left + tile.span / channels <= p.in.w;
    start = left * channels + lane;
    for (int e = threadIdx.x; e < tile.span; e += 32 * kLineWarps) {
      const int plane = e / tile.plane_span, in_plane = e - plane * tile.plane_span;
      const int pixel = in_plane / channels, channel = in_plane - pixel * channels;
      const int x = map_index(left + pixel, int(p.in.w), p.place.border);
      const LinePlane at_plane = plane_of(p, at, plane);
      const int64_t offset = at_plane.n * p.in.stride_n + at_plane.c * p.in.stride_c - origin;
      const bool there = x >= 0 && at_plane.there && at_plane.c + channel < p.in.c;
      columns[e] = there ? int(offset) + x * int(p.in.stride_w) + channel * int(p.in.stride_c) : kNowhere;
    }
  }

  // Row top + i of the box in the image. All lanes of a warp.
  __device__ __forceinline__ int image_row(int i) const { return __shfl_sync(~0u, row, top + i); }
  __device__ __forceinline__ const T* pixels_of(int row) const {
    return image + int64_t(max(row, 0)) * int(p.in.stride_h);
  }

  // Rows y to y + count - 1 of the image. Elements that are not there are loaded from the first row or column, and not
  // stored.
  __device__ __forceinline__ void load(int y, int count) {
    row = lane < count ? map_index(y + lane, int(p.in.h), p.place.border) : kNowhere;
    const T* rows[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) rows[i] = pixels_of(image_row(i));
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int c = 32 * k + lane;
      if (c >= p.tile.span) break;
      const int at = whole ? start + 32 * k : max(columns[c], 0);
#pragma unroll
      for (int i = 0; i < kRows; ++i) elements[k][i] = rows[i][at];
    }
  }

  __device__ __forceinline__ void store(A* box) const {
    const A value = A(p.place.border == Border::constant ? p.place.value : 0.0);
    A* const to = box + top * p.tile.pitch();
    int rows[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) rows[i] = image_row(i);
    const auto put = [&](int c, int i, bool there, T element) {
      to[i * p.tile.pitch() + c] = there && rows[i] >= 0 ? to_acc<A>(element) : value;
    };
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int c = 32 * k + lane;
      if (c >= p.tile.span) return;
      const bool there = whole || columns[c] >= 0;
#pragma unroll
      for (int i = 0; i < kRows; ++i) put(c, i, there, elements[k][i]);
    }
#pragma unroll 1
    for (int c = 32 * kAhead + lane; c < p.tile.span; c += 32) {
      const int at = columns[c];
#pragma unroll
      for (int i = 0; i < kRows; ++i) put(c, i, at >= 0, pixels_of(rows[i])[max(at, 0)]);
    }
  }
};

// sums[v] += taps[i] * from[(v * kStride + i) * step] for i ascending; an element is read once, and element e is
// window[e % kWindow]. Four taps at a time, whose elements are read before: up to kLineBeyond elements behind the last
// one. A constant step is an operand of the loads.
template <int kStride, int V, typename A, typename Step>
__device__ __forceinline__ void slide(A (&sums)[V], const A* taps, int count, const A* from, Step step) {
  constexpr int kWindow = V * kStride, kLast = (V - 1) * kStride;
  A window[kWindow];
#pragma unroll
  for (int e = 0; e < kLast; ++e) window[e] = from[e * step];
  for (int remaining = count;; taps += kWindow, from += kWindow * step) {
#pragma unroll
    for (int u = 0; u < kWindow; u += 4) {
      A next[4], tap[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) next[j] = from[(u + j + kLast) * step], tap[j] = taps[u + j];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (j > 0 && j >= remaining) return;
        window[(u + j + kLast) % kWindow] = next[j];
#pragma unroll
        for (int v = 0; v < V; ++v) sums[v] = fma(tap[j], window[(u + j + v * kStride) % kWindow], sums[v]);
      }
      remaining -= 4;
      if (remaining <= 0) return;
    }
  }
}

// One of the passes over V neighbouring outputs; elements of the axis are `step` apart, mostly kStep, and output 0
// begins at position `first`. Near an edge `skip` leaves out taps. put(sums, v) takes outputs from v on.
template <int kStride, int V, int kStep, typename A, typename Put>
__device__ __forceinline__ void line_pass(const A* taps, int count, const A* from, int step, bool skip,
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
  if constexpr (kStride == 0)
    accumulate(sums, taps, count, false, [&](int v, int i) { return from[v * step_v + i * step_i]; });
  else if (step == kStep) slide<kStride>(sums, taps, count, from, std::integral_constant<int, kStep>{});
  else slide<kStride>(sums, taps, count, from, step);
  put(sums, 0);
}

// Writes a column of outputs.
struct LineWriter {
  const LineParams& p;
  int64_t start;  // the column's first element
  bool fits_x;    // the window is inside the rows of the image

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
    with_type(p.out.dtype, [&](auto zero) {
      using Out = decltype(zero);
      constexpr int64_t kBytes = sizeof(Out);
      char* to = static_cast<char*>(p.out.data) + (start + y * p.out.stride_h) * kBytes;
#pragma unroll
      for (int v = 0; v < V; ++v, to += p.out.stride_h * kBytes)
        if (v < rows) *reinterpret_cast<Out*>(to) = from_acc<Out>(sums[v]);
    });
  }
};

// kStride: along both axes, with dilation 1; 0: any other strides and dilations.
template <typename T, int kStride>
__global__ void __launch_bounds__(32 * kLineWarps, line_blocks(kStride, sizeof(acc_t<T>)))
    separable_line_buffer(const __grid_constant__ LineParams p) {
  using A = acc_t<T>;
  constexpr int V = line_reuse(kStride, sizeof(A)), kColumnsOfBlock = kLineWarps * V;
  extern __shared__ __align__(128) unsigned char shared[];
  const LineTile& tile = p.tile;
  const int stride_y = int(p.place.stride_y), pitch = tile.line_pitch();
  A* const taps_x = reinterpret_cast<A*>(shared);
  A* const taps_y = taps_x + tap_elements(p.kw);
  A* const box = taps_y + tap_elements(p.kh);
  A* const lines = box + tile.box_elements(p.place);
  A* const weights = lines + tile.line_elements(p.place);
  int* const columns = reinterpret_cast<int*>(weights + kLineRows);

  const Position at = block_position(p, tile.steps * kLineRows);
  const auto bring_taps = [&](A* to, const PassTaps::Pass& pass, int count) {
    const A* const from = p.taps.template of<A>(pass, at.n, at.channel);
    for (int i = threadIdx.x; i < count; i += 32 * kLineWarps) to[i] = from[i];
  };
  bring_taps(taps_x, p.taps.x, p.kw);
  bring_taps(taps_y, p.taps.y, p.kh);
  LineLoader<T> loader(p, at, columns);
  __syncthreads();

  const bool skip = p.place.border == Border::skip;
  const Axis axis_x{p.in.w, p.place.stride_x, p.place.dilation_x}, axis_y{p.in.h, stride_y, p.place.dilation_y};
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // Row pass: the warp's segment is V pixels of a plane, or of one of the channels.
  const int across = warp / tile.channels * V, channel = warp % tile.channels;
  const int plane = across / tile.pixels, pixel = across - plane * tile.pixels;
  const int first_x = (int(at.x) + pixel) * int(axis_x.stride) - int(p.place.pad_x);
  const A* const row =
      box + lane * tile.pitch() + plane * tile.plane_span + pixel * int(axis_x.stride) * tile.channels + channel;
  A* const results = lines + lane * pitch + across * tile.channels + channel;
  // Column pass: the thread's column, V rows of it.
  const int column = threadIdx.x % kColumnsOfBlock, part = threadIdx.x / kColumnsOfBlock * V;
  const int pixel_out = column / tile.channels % tile.pixels, channel_out = column % tile.channels;
  const LinePlane out = plane_of(p, at, column / tile.channels / tile.pixels);
  const int x = int(at.x) + pixel_out, left = x * int(axis_x.stride) - int(p.place.pad_x);
  const bool stores = column < tile.columns() && x < p.out.w && out.there && out.c + channel_out < p.out.c;
  const LineWriter writer{p, out.n * p.out.stride_n + (out.c + channel_out) * p.out.stride_c + x * p.out.stride_w,
                          left >= 0 && left + (p.kw - 1) * axis_x.dilation < p.in.w};

  const int last_y = int(min(at.y + tile.steps * kLineRows, p.out.h));
  const auto first_row = [&](int y) { return y * stride_y - int(p.place.pad_y); };
  // The lines that the outputs of a step need.
  const auto needed = [&](int y) { return tile.lines - max(kLineRows - (last_y - y), 0) * stride_y; };

  A weight = 1;
  if (p.place.normalized && stores) weight = inside_weight(taps_x, p.kw, Axis{p.in.w, 0, axis_x.dilation}, left);

  int y = int(at.y), line = 0;       // the box: the step's first output, and its first line
  int next_y = y, next_line = line;  // the next box
  for (bool more = true, loaded = false;; loaded = true) {
    if (more) loader.load(first_row(next_y) + next_line, needed(next_y) - next_line);
    if (loaded) {
      if (lane < needed(y) - line && across < tile.columns() / tile.channels) {
        A* const to = results + line * pitch;
        const auto put = [&](const auto& sums, int v) {
          int offset = v * tile.channels;
#pragma unroll
          for (const A& sum : sums) to[offset] = sum, offset += tile.channels;
        };
        line_pass<kStride, V, 1>(taps_x, p.kw, row, tile.channels, skip, axis_x, first_x, put);
      }
      if (p.place.normalized && next_y != y && warp == 0)
        weights[lane] = inside_weight(taps_y, p.kh, Axis{p.in.h, 0, axis_y.dilation}, first_row(y + lane));
      __syncthreads();
      if (next_y != y) {
        if (stores && y + part < last_y) {
          const auto put = [&](auto& sums, int v) {
            writer.put(sums, y + part + v, last_y - y - part - v, weight, weights + part + v);
          };
          line_pass<kStride, V, kColumnsOfBlock + 1>(taps_y, p.kh, lines + part * stride_y * pitch + column, pitch,
                                                     skip, axis_y, first_row(y + part), put);
        }
        if (!more) return;
        __syncthreads();
        if (threadIdx.x < tile.columns()) {
          A* to = lines + threadIdx.x;
#pragma unroll 4
          for (int r = 0; r < tile.kept; ++r, to += pitch) *to = to[kLineRows * stride_y * pitch];
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
