// A box of an image in shared memory, extended beyond the image's edges by a border policy.
#pragma once

#include "core/border.h"
#include "core/cuda/device.cuh"
#include "core/peer_rows.h"

namespace torch_conv {

// The origin of a block's box in shared memory: its element (0, 0) is element (y, x) of a plane.
struct SharedOrigin {
  int y, x;
};

// A box in shared memory whose rows start `pitch` elements apart.
template <typename T>
struct SharedTile {
  T* data;
  int pitch;
  __device__ __forceinline__ T* row(int r) const { return data + r * pitch; }
};

// Rows [top, bottom) and columns [left, right) of a box in shared memory.
struct SharedPart {
  int top, bottom, left, right;
};

// The rows of an image that is not a shard.
struct OwnRows {
  __device__ __forceinline__ int map_row(int y, int h, Border border) const { return map_index(y, h, border); }
  static __device__ __forceinline__ bool stands(int row) { return row >= 0; }
  template <typename T>
  __device__ __forceinline__ const T* row(const T* plane, int64_t stride_h, int row, int) const {
    return plane + int64_t(row) * stride_h;
  }
};

// The rows of channel c of sample n of a shard and its peers.
struct ShardRows {
  const PeerRows& peers;
  unsigned n, c;
  __device__ __forceinline__ int map_row(int y, int h, Border border) const { return peers.map_row(y, h, border); }
  static __device__ __forceinline__ bool stands(int row) { return row != PeerRows::kOutside; }
  template <typename T>
  __device__ __forceinline__ const T* row(const T* plane, int64_t stride_h, int row, int h) const {
    return peers.row(plane, stride_h, row, h, n, c);
  }
};

// Interleaved channels: the values of a pixel, and the stride from one pixel to the next.
struct PixelValues {
  int channels = 1, stride = 1;

  // The offset of column x of the image from its row's first value.
  __device__ __forceinline__ int64_t offset(int x) const {
    return channels == stride ? x : int64_t(x / channels) * stride + x % channels;
  }
};

// Fills the elements outside the h x w image in a part of the box at `at`: first the columns of rows inside the image,
// then whole rows. The function reads repeated elements from the box if they are there, else from the image or the
// neighbour shards. All threads of the block call it, after the box is written. There is a barrier inside; the caller
// needs one after it.
template <int kThreads, class SharedRows, typename T, class Rows>
__device__ __forceinline__ void extend_box(const SharedRows& box, SharedPart part, SharedOrigin at, const T* plane,
                                           int64_t stride_h, int h, int w, Border border, T outside, const Rows& rows,
                                           PixelValues pixels = {}) {
  const int top = min(max(-at.y, part.top), part.bottom), bottom = min(max(h - at.y, top), part.bottom);
  const int left = min(max(-at.x, part.left), part.right), right = min(max(w - at.x, left), part.right);
  const int outer_rows = top - part.top + part.bottom - bottom, outer_columns = left - part.left + part.right - right;
  for (int e = threadIdx.x; e < (bottom - top) * outer_columns; e += kThreads) {
    const int r = top + e / outer_columns, q = part.left + e % outer_columns, i = q < left ? q : q - left + right;
    const int from = map_column(at.x + i, w, pixels.channels, border), source = from - at.x;
    T* row = box.row(r);
    row[i] = from < 0                           ? outside
             : source >= left && source < right ? row[source]
                                                : plane[int64_t(at.y + r) * stride_h + pixels.offset(from)];
  }
  __syncthreads();
  const int width = part.right - part.left;
  for (int e = threadIdx.x; e < outer_rows * width; e += kThreads) {
    const int q = part.top + e / width, i = part.left + e % width, r = q < top ? q : q - top + bottom;
    const int from = rows.map_row(at.y + r, h, border), source = from - at.y;
    T pixel = outside;
    if (from >= 0 && source >= top && source < bottom) {
      pixel = box.row(source)[i];
    } else if (rows.stands(from)) {
      const int column = map_column(at.x + i, w, pixels.channels, border);
      if (column >= 0) pixel = rows.row(plane, stride_h, from, h)[pixels.offset(column)];
    }
    box.row(r)[i] = pixel;
  }
}

}  // namespace torch_conv
