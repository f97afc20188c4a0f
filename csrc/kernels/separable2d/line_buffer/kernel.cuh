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
  LineLoader<T, LineParams, line_ahead(sizeof(A))> loader(p, at, columns);
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
        line_pass<kStride, V, 1, 3, 4>(taps_x, p.kw, row, tile.channels, skip, axis_x, first_x, put);
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
