// Separable filters of any size, stride, dilation, layout, border and dtype: the parts that LINE_BUFFER and TWO_PASS
// share.
//
// A tile row holds `pixels` neighbouring pixels of `channels` interleaved channels (1 when planes are apart), so that
// HWC images load and store whole lines. Along a row or column, output v reads element v * stride + i *
// dilation at tap i. Where stride == dilation neighbouring outputs read the same elements, and each is fetched once.
#pragma once

#include "core/cuda/line_loader.cuh"
#include "core/cuda/line_pass.cuh"
#include "kernels/separable2d/shared/any_layout.h"

namespace torch_conv::separable2d {

// Sum of the |taps| inside, in ascending order.
template <typename A>
__device__ __forceinline__ A inside_weight(const A* taps, int count, Axis axis, int64_t first) {
  A sum = 0;
  for (int i = 0; i < count; ++i)
    if (axis.inside(first, 0, i)) sum += fabs(taps[i]);
  return sum;
}

// The row pass of kRowBlock input rows. row_at(r) is the image row of local row r, -1 for a row outside, or -2 for
// none; `results` gets row r's sums at results[r * pitch + column]. All threads call it; `staged` is theirs alone
// until the next __syncthreads().
//
//   staged, kRowBlock x span pixels:  lanes over columns bring it in (coalesced), `taps` row taps' worth at a time
//   row pass:                         lanes over rows (odd pitch: no bank conflict), warps over kReuse pixels
template <typename T, typename A, typename RowAt>
__device__ __forceinline__ void row_pass(const GeneralParams& p, const Position& at, A* staged, A* results, int rows,
                                         RowAt row_at) {
  constexpr int kRowsPerWarp = kRowBlock / kWarps;
  const GeneralTile& tile = p.tile;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int channels = tile.channels, segments = (tile.pixels + kReuse - 1) / kReuse * channels;
  const A* taps = p.taps.of<A>(p.taps.x, at.n, at.channel);
  const T* image = static_cast<const T*>(p.in.data) + at.n * p.in.stride_n + at.channel * p.in.stride_c;
  const int64_t first_x = at.x * p.place.stride_x - p.place.pad_x;
  const int64_t stride = p.place.stride_x, dilation = p.place.dilation_x;
  const Axis axis{p.in.w, stride, dilation};
  const bool skip = p.place.border == Border::skip && !axis.covers(first_x, tile.pixels, p.kw);
  const A value = A(p.place.border == Border::constant ? p.place.value : 0.0);

  int64_t rows_in[kRowsPerWarp];
#pragma unroll
  for (int k = 0; k < kRowsPerWarp; ++k) {
    const int r = warp * kRowsPerWarp + k;
    rows_in[k] = r < rows ? row_at(r) : -2;
  }

  A sums[kSegments][kReuse] = {};
  for (int tap = 0; tap < p.kw; tap += tile.taps) {
    const int count = min(tile.taps, p.kw - tap);
    __syncthreads();
#pragma unroll 2
    for (int c = lane; c < tile.span * channels; c += 32) {
      const int pixel = channels == 1 ? c : c / channels, channel = c - pixel * channels;
      const int64_t x = map_index(first_x + tap * dilation + pixel, p.in.w, p.place.border);
      const bool there = x >= 0 && at.channel + channel < p.in.c;
      const T* column = image + x * p.in.stride_w + channel * p.in.stride_c;
#pragma unroll
      for (int k = 0; k < kRowsPerWarp; ++k)
        if (rows_in[k] >= -1)
          staged[(warp * kRowsPerWarp + k) * tile.pitch + c] =
              there && rows_in[k] >= 0 ? to_acc<A>(column[rows_in[k] * p.in.stride_h]) : value;
    }
    __syncthreads();
#pragma unroll
    for (int s = 0; s < kSegments; ++s) {
      const int segment = warp + s * kWarps;
      if (segment >= segments) break;
      const int group = segment / channels * kReuse, channel = segment % channels;
      const A* row = staged + lane * tile.pitch + channel;
      if (skip) {
        accumulate_inside(sums[s], taps + tap, count, axis, first_x + group * stride + tap * dilation,
                          [&](int v, int j) {
                            const int last = min(group + v, tile.pixels - 1);
                            return row[int(last * stride + j * dilation) * channels];
                          });
      } else if (p.reuse_x) {
        const A* first = row + int(group * stride) * channels;
        const int step = int(dilation) * channels;
        accumulate(sums[s], taps + tap, count, true, [&](int, int e) { return first[e * step]; });
      } else {
        int offset[kReuse];  // pixels past the tile's last repeat it
#pragma unroll
        for (int v = 0; v < kReuse; ++v) offset[v] = int(min(group + v, tile.pixels - 1) * stride) * channels;
        accumulate(sums[s], taps + tap, count, false,
                   [&](int v, int j) { return row[offset[v] + int(j * dilation) * channels]; });
      }
    }
  }
#pragma unroll
  for (int s = 0; s < kSegments; ++s) {
    const int segment = warp + s * kWarps;
    if (segment >= segments || lane >= rows) break;
    const int group = segment / channels * kReuse, channel = segment % channels;
    A* to = results + lane * tile.columns_pitch() + group * channels + channel;
#pragma unroll
    for (int v = 0; v < kReuse; ++v)
      if (group + v < tile.pixels) to[v * channels] = sums[s][v];
  }
}

template <typename Out, int V, typename A>
__device__ __forceinline__ void store_rows(const Image& out, int64_t first, int64_t rows, const A (&sums)[V]) {
  Out* to = static_cast<Out*>(out.data) + first;
#pragma unroll
  for (int v = 0; v < V; ++v)
    if (v < rows) to[v * out.stride_h] = from_acc<Out>(sums[v]);
}

// Ends V output rows of one column: y, x and channel are the output's, the borders' last word is said here.
template <int V, typename A>
__device__ __forceinline__ void finish(const GeneralParams& p, A (&sums)[V], int64_t n, int64_t channel, int64_t y,
                                       int64_t x, int rows, A column_weight) {
  const Placement& at = p.place;
  const int64_t first_y = y * at.stride_y - at.pad_y, first_x = x * at.stride_x - at.pad_x;
  if (at.border == Border::skip && at.normalized) {
    const A* taps = p.taps.of<A>(p.taps.y, n, channel);
    const Axis axis{p.in.h, at.stride_y, at.dilation_y};
#pragma unroll
    for (int v = 0; v < V; ++v) sums[v] /= column_weight * inside_weight(taps, p.kh, axis, first_y + v * at.stride_y);
  }
  if (at.border == Border::zero_output) {
    const bool fits_x = first_x >= 0 && first_x + (p.kw - 1) * at.dilation_x < p.in.w;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int64_t top = first_y + v * at.stride_y;
      if (!fits_x || top < 0 || top + (p.kh - 1) * at.dilation_y >= p.in.h) sums[v] = 0;
    }
  }
  const int64_t first = n * p.out.stride_n + channel * p.out.stride_c + y * p.out.stride_h + x * p.out.stride_w;
  const int64_t count = min(int64_t(rows), p.out.h - y);
  with_type(p.out.dtype, [&](auto zero) { store_rows<decltype(zero)>(p.out, first, count, sums); });
}

}  // namespace torch_conv::separable2d
