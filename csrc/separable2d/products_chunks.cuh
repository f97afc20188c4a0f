// The chunks of PRODUCTS in shared memory: as bulk copies leave them, brought by single threads, and extended beyond
// the image.
#pragma once

#include "core/async_copy.cuh"
#include "core/extend.cuh"
#include "core/tma.cuh"
#include "separable2d/products.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

namespace torch_conv::separable2d::products {

// ---- Shared memory as swizzled bulk copies see it -------------------------------------------------------------------

// Rows of 128 bytes, whose pieces of 16 stand at piece ^ row % 8. Starts on 1024 bytes.
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
  __device__ __forceinline__ SwizzledRow<T> row(int r) const { return {data + r * BandShape::chunk, r % 8}; }
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

// 16 bytes of a row of w elements, from `column` on; zeros beyond its ends.
template <typename T>
__device__ __noinline__ uint4 load_piece(const T* row, int column, int w) {
  constexpr int count = 16 / int(sizeof(T));
  const T* const from = row + column;
  if (column >= 0 && column + count <= w && reinterpret_cast<uintptr_t>(from) % 16 == 0)
    return *reinterpret_cast<const uint4*>(from);
  T elements[count];
#pragma unroll
  for (int i = 0; i < count; ++i) elements[i] = unsigned(column + i) < unsigned(w) ? from[i] : from_acc<T>(0.f);
  uint4 piece;
  memcpy(&piece, elements, 16);
  return piece;
}

// 32 bytes, of which those from `behind` on, below 16, become the first.
__device__ __forceinline__ uint4 shifted_down(const uint4& low, const uint4& high, int behind) {
  unsigned w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int i = 0; i < 6; ++i) w[i] = behind & 8 ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) w[i] = behind & 4 ? w[i + 1] : w[i];
  const int bits = behind % 4 * 8;
  return {__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits), __funnelshift_r(w[2], w[3], bits),
          __funnelshift_r(w[3], w[4], bits)};
}

// Of a chunk of rows that start anywhere the words of 16 bytes that memory has, by copies of single threads: those of a
// row begin with the one that holds its first byte. Words beyond the ends of an image's rows stay away. All threads.
template <int rows, typename T>
__device__ __forceinline__ void copy_words(unsigned char* raw, const BandArgs& a, const T* plane, int bx, int top) {
  constexpr int kWords = BandShape::raw / 16;
#pragma unroll 1
  for (int e = threadIdx.x; e < rows * kWords; e += 32 * BandShape::warps) {
    const int r = e / kWords, y = top + r;
    if (unsigned(y) >= unsigned(a.planes.in_h)) continue;
    const T* const row = plane + y * a.planes.in_stride_h;
    const uintptr_t first = reinterpret_cast<uintptr_t>(row), behind = reinterpret_cast<uintptr_t>(row + bx) & 15;
    const uintptr_t word = reinterpret_cast<uintptr_t>(row + bx) - behind + e % kWords * 16;
    if (word >= first && word + 16 <= first + a.planes.in_w * sizeof(T))
      async_copy<16>(raw + e * 16, reinterpret_cast<const void*>(word));
  }
}

// These words as a chunk, zeros outside the image. All threads.
template <int rows, typename T>
__device__ __forceinline__ void place_words(unsigned char* box, const unsigned char* raw, const BandArgs& a,
                                            const T* plane, int bx, int top) {
  constexpr int count = 16 / int(sizeof(T)), kPieces = BandShape::chunk / 16;
  const int piece = threadIdx.x % kPieces, column = bx + piece * count;
  const bool inside = column >= count && column + 2 * count <= a.planes.in_w;  // both words of a piece
#pragma unroll 1
  for (int r = threadIdx.x / kPieces; r < rows; r += 32 * BandShape::warps / kPieces) {
    const int y = top + r;
    const T* const row = plane + y * a.planes.in_stride_h;
    uint4 v{};
    if (unsigned(y) < unsigned(a.planes.in_h)) {
      const uint4* const words = reinterpret_cast<const uint4*>(raw + r * BandShape::raw) + piece;
      if (inside) v = shifted_down(words[0], words[1], int(reinterpret_cast<uintptr_t>(row + bx) & 15));
      else v = load_piece(row, column, a.planes.in_w);
    }
    *reinterpret_cast<uint4*>(box + r * BandShape::chunk + (piece ^ r % 8) * 16) = v;
  }
}

// Extends a chunk, which starts at (bx, top), by the border policy: rows up to `bottom`, columns [from, to) of it. Rows
// outside the image first, in pieces of 16 bytes, most of which stand in the chunk itself; then columns, of all rows.
// (core/extend.cuh, element by element, took 2.2 us a chunk with 7 rows outside and 3.4 with 15, float16 on one
// NVIDIA H200.) All threads, which see the chunk whole; a barrier ends it.
template <typename T>
__device__ __forceinline__ void extend_chunk(unsigned char* box, const BandArgs& a, TilePlace at, int bx, int top,
                                             int bottom, int from, int to) {
  constexpr int kThreads = 32 * BandShape::warps, kPieces = BandShape::chunk / 16, kColumns = 8;
  const int h = a.planes.in_h, w = a.planes.in_w, rows = bottom - top;
  const T* const plane = a.planes.in_plane<T>(at.n, at.c);
  const ShardRows shards{a.beside, at.n, at.c};
  const T outside = from_acc<T>(a.value);
  const int above = min(max(-top, 0), rows), outer = above + min(max(bottom - h, 0), rows - above);
  for (int e = threadIdx.x; e < outer * kPieces; e += kThreads) {
    const int i = e / kPieces, piece = e % kPieces, r = i < above ? i : rows - outer + i;
    const int source = shards.map_row(top + r, h, a.border), in_box = source - top;
    uint4 v = filled_with(outside);
    if (shards.stands(source)) {
      if (source >= 0 && source < h && in_box >= 0 && in_box < rows)
        v = *reinterpret_cast<const uint4*>(box + in_box * BandShape::chunk + (piece ^ in_box % 8) * 16);
      else v = load_piece(shards.row(plane, a.planes.in_stride_h, source, h), bx + piece * (16 / int(sizeof(T))), w);
    }
    *reinterpret_cast<uint4*>(box + r * BandShape::chunk + (piece ^ r % 8) * 16) = v;
  }
  __syncthreads();
  const int left = min(max(-bx - from, 0), to - from), right = min(max(bx + to - w, 0), to - from - left);
  if (left + right == 0) return;
  for (int r = threadIdx.x / kColumns; r < rows; r += kThreads / kColumns) {
    const SwizzledRow<T> row = SwizzledBox<T>{box}.row(r);
    for (int i = threadIdx.x % kColumns; i < left + right; i += kColumns) {
      const int column = i < left ? from + i : to - left - right + i;
      const int source = map_index(bx + column, w, a.border);
      T pixel = outside;
      if (source >= max(bx + from, 0) && source < bx + to) {
        pixel = row[source - bx];
      } else if (source >= 0) {
        const int of_row = shards.map_row(top + r, h, a.border);
        if (shards.stands(of_row)) pixel = shards.row(plane, a.planes.in_stride_h, of_row, h)[source];
      }
      row[column] = pixel;
    }
  }
  __syncthreads();
}

}  // namespace torch_conv::separable2d::products

#endif
