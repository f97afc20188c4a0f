// The chunks of MMA in shared memory: as bulk copies leave them, and extended beyond the image.
#pragma once

#include "core/cuda/extend.cuh"
#include "core/cuda/tma.cuh"
#include "kernels/separable2d/mma/params.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

namespace torch_conv::separable2d::mma {

// ---- Shared memory as swizzled bulk copies see it -------------------------------------------------------------------

// Rows of 128 bytes, whose piece of 16 bytes i is at i ^ row % 8. Starts on 1024 bytes.
template <typename T>
struct SwizzledRow {
  unsigned char* data;
  int phase;
  __device__ __forceinline__ T& operator[](int i) const {
    const int byte = i * int(sizeof(T));
    return *reinterpret_cast<T*>(data + ((byte / 16 ^ phase) * 16 + byte % 16));
  }
};
template <typename T>
struct SwizzledBox {
  unsigned char* data;
  __device__ __forceinline__ SwizzledRow<T> row(int r) const { return {data + r * MmaPolicy::chunk, r % 8}; }
};

// ---- Beyond the image -----------------------------------------------------------------------------------------------

// 16 bytes of `value`.
template <typename T>
__device__ __forceinline__ uint4 filled_with(T value) {
  unsigned word = 0;
#pragma unroll
  for (int i = 0; i < 4 / int(sizeof(T)); ++i)
    memcpy(reinterpret_cast<char*>(&word) + i * sizeof(T), &value, sizeof(T));
  return {word, word, word, word};
}

// 16 bytes of a row of w elements, `pixel_stride` elements from one another, from `column` on; zeros beyond its ends.
template <int pixel_stride, typename T>
__device__ __noinline__ uint4 load_piece(const T* row, int column, int w) {
  constexpr int count = 16 / int(sizeof(T));
  const T* const from = row + column * pixel_stride;
  if (pixel_stride == 1 && column >= 0 && column + count <= w && reinterpret_cast<uintptr_t>(from) % 16 == 0)
    return *reinterpret_cast<const uint4*>(from);
  T elements[count];
#pragma unroll
  for (int i = 0; i < count; ++i)
    elements[i] = unsigned(column + i) < unsigned(w) ? from[i * pixel_stride] : from_acc<T>(0.f);
  uint4 piece;
  memcpy(&piece, elements, 16);
  return piece;
}

// Extends a chunk, which starts at (bx, top), by the border policy: rows up to `bottom`, columns [from, to) of it. Rows
// outside the image come first, in pieces of 16 bytes, most of which are in the chunk itself; then columns, of all
// rows. Element by element, core/cuda/extend.cuh takes 2.2 us a chunk with 7 rows outside and 3.4 with 15 (float16, one
// NVIDIA H200). Each interleaved channel has its own box. All threads call this when the chunk is complete; a barrier
// ends it.
template <typename T, MmaPolicy s>
__device__ __forceinline__ void extend_chunk(unsigned char* boxes, const BandArgs& a, TilePosition at, int bx, int top,
                                             int bottom, int from, int to) {
  constexpr int kPieces = s.chunk / 16, kColumns = 8, kChannels = s.channels;
  const int h = a.planes.in_h, w = a.planes.in_w, rows = bottom - top;
  const T* const plane = a.planes.in_plane<T>(at.n, at.c);
  const ShardRows shards{a.peers, at.n, at.c};
  const T outside = from_acc<T>(a.value);
  const int above = min(max(-top, 0), rows), outer = above + min(max(bottom - h, 0), rows - above);
  for (int e = threadIdx.x; e < outer * kPieces * kChannels; e += s.threads()) {
    const int index = e / kChannels, channel = e % kChannels, i = index / kPieces, piece = index % kPieces;
    const int r = i < above ? i : rows - outer + i;
    const int source = shards.map_row(top + r, h, a.border), in_box = source - top;
    unsigned char* const box = boxes + channel * s.box_bytes();
    uint4 v = filled_with(outside);
    if (shards.stands(source)) {
      if (source >= 0 && source < h && in_box >= 0 && in_box < rows)
        v = *reinterpret_cast<const uint4*>(box + in_box * s.chunk + (piece ^ in_box % 8) * 16);
      else
        v = load_piece<kChannels>(shards.row(plane, a.planes.in_stride_h, source, h) + channel,
                                  bx + piece * (16 / int(sizeof(T))), w);
    }
    *reinterpret_cast<uint4*>(box + r * s.chunk + (piece ^ r % 8) * 16) = v;
  }
  __syncthreads();
  const int left = min(max(-bx - from, 0), to - from), right = min(max(bx + to - w, 0), to - from - left);
  if (left + right == 0) return;
  for (int r = threadIdx.x / kColumns; r < rows; r += s.threads() / kColumns) {
    for (int i = threadIdx.x % kColumns; i < left + right; i += kColumns) {
      const int column = i < left ? from + i : to - left - right + i;
      const int source = map_index(bx + column, w, a.border);
      const bool in_box = source >= max(bx + from, 0) && source < bx + to;
      const T* pixel = nullptr;
      if (!in_box && source >= 0) {
        const int source_row = shards.map_row(top + r, h, a.border);
        if (shards.stands(source_row))
          pixel = shards.row(plane, a.planes.in_stride_h, source_row, h) + source * kChannels;
      }
#pragma unroll
      for (int channel = 0; channel < kChannels; ++channel) {
        const SwizzledRow<T> row = SwizzledBox<T>{boxes + channel * s.box_bytes()}.row(r);
        row[column] = in_box ? row[source - bx] : pixel ? pixel[channel] : outside;
      }
    }
  }
  __syncthreads();
}

}  // namespace torch_conv::separable2d::mma

#endif
