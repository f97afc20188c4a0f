// Brings the rows of an image, of any dtype and layout, to shared memory in the accumulation type, extended beyond the
// image's edges: the loader of kernels that keep line buffers (core/line_buffer.h).
//
// The parameters of such a kernel have the members `in`, `place`, `tile` (a LineRow and the output pixels of a tile
// row), `tiles_x`, `tiles_y` and `channel_blocks`.
#pragma once

#include "core/cuda/device.cuh"
#include "core/line_buffer.h"

namespace torch_conv {

// A block's outputs: output pixel (y, x) is the first of its tile, `channel` the first of its channels.
struct Position {
  int64_t n, channel, y, x;
  int64_t group;  // counts (n, channel block)
};

// Blocks in raster order, channel blocks of one place next to one another.
template <typename Params>
__device__ __forceinline__ Position block_position(const Params& p, int rows) {
  unsigned i = blockIdx.x;
  const unsigned tile_x = i % p.tiles_x;
  i /= p.tiles_x;
  const bool interleaved = p.tile.channels > 1;
  unsigned tile_y, block;
  if (interleaved) block = i % p.channel_blocks, i /= p.channel_blocks;
  tile_y = i % p.tiles_y, i /= p.tiles_y;
  if (!interleaved) block = i % p.channel_blocks, i /= p.channel_blocks;
  return {i, int64_t(block) * p.tile.channels, int64_t(tile_y) * rows, int64_t(tile_x) * p.tile.pixels,
          int64_t(i) * p.channel_blocks + block};
}

// The sample and the channel of a tile's plane, or of the first of its interleaved channels.
struct LinePlane {
  int64_t n, c;
  bool there;
};
template <typename Params>
__device__ __forceinline__ LinePlane plane_of(const Params& p, const Position& at, int plane) {
  if (p.tile.planes == 1) return {at.n, at.channel, true};
  const int64_t i = at.channel * p.tile.planes + plane;
  return {i / p.in.c, i % p.in.c, i < p.in.n * p.in.c};
}

// Brings boxes of a strip. load() starts the loads of a box, store() ends them. A lane brings columns lane, lane + 32,
// ... of a tile row; registers hold the first kAhead of them until store(), which reads the rest.
template <typename T, typename Params, int kAhead>
struct LineLoader {
  using A = acc_t<T>;
  static constexpr int kRows = kLineRows / kLineWarps;  // of a warp
  static constexpr int kNowhere = -1;

  const Params& p;
  const T* image;  // the first plane
  int* columns;    // in shared memory: where the elements of a tile row are in a row of the image
  bool whole;      // they lie side by side, all inside the image
  int lane = threadIdx.x % 32, top = threadIdx.x / 32 * kRows;
  int start;    // of the lane in a whole tile row
  int row = 0;  // of the image, for row `lane` of the box
  T elements[kAhead][kRows];

  // All threads; a barrier follows.
  __device__ __forceinline__ LineLoader(const Params& p, const Position& at, int* columns) : p(p), columns(columns) {
    const LineRow& tile = p.tile;
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
    if (whole) {  // addresses in registers, and offsets in the loads
#pragma unroll
      for (int i = 0; i < kRows; ++i) rows[i] += start;
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (32 * k + lane >= p.tile.span) break;
#pragma unroll
        for (int i = 0; i < kRows; ++i) elements[k][i] = rows[i][32 * k];
      }
      return;
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int c = 32 * k + lane;
      if (c >= p.tile.span) break;
      const int at = max(columns[c], 0);
#pragma unroll
      for (int i = 0; i < kRows; ++i) elements[k][i] = rows[i][at];
    }
  }

  __device__ __forceinline__ void store(A* box) const {
    const A value = A(p.place.border == Border::constant ? p.place.value : 0.0);
    const int pitch = p.tile.pitch();
    A* to[kRows];
    int rows[kRows];
    bool plain = whole;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      rows[i] = image_row(i), to[i] = box + (top + i) * pitch + lane;
      plain = plain && rows[i] >= 0;
    }
    if (plain) {
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (32 * k + lane >= p.tile.span) return;
#pragma unroll
        for (int i = 0; i < kRows; ++i) to[i][32 * k] = to_acc<A>(elements[k][i]);
      }
    } else {
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int c = 32 * k + lane;
        if (c >= p.tile.span) return;
        const bool there = whole || columns[c] >= 0;
#pragma unroll
        for (int i = 0; i < kRows; ++i) to[i][32 * k] = there && rows[i] >= 0 ? to_acc<A>(elements[k][i]) : value;
      }
    }
#pragma unroll 1
    for (int c = 32 * kAhead; c + lane < p.tile.span; c += 32) {
      const int at = columns[c + lane];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const T element = pixels_of(rows[i])[max(at, 0)];
        to[i][c] = at >= 0 && rows[i] >= 0 ? to_acc<A>(element) : value;
      }
    }
  }
};

}  // namespace torch_conv
