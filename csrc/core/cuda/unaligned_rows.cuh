// Loads and stores of rows with any alignment, without bulk copies.
#pragma once

#include "core/cuda/async_copy.cuh"
#include "core/cuda/unroll.cuh"
#include "core/geometry.h"
#include "core/tile_order.h"

namespace torch_conv {

// Rows in shared memory, kPitch elements apart. The address of each row modulo kOn bytes is that of the row in memory.
// kOn 1: rows start at multiples of the pitch.
template <typename T, int kPitch, int kOn>
struct PhasedRows {
  T* data;
  unsigned address, stride;  // bytes, modulo 2^32: row 0 in memory, from row to row

  // The start of row r: a word, and a number of bits behind it.
  __device__ __forceinline__ int behind(int r) const { return (address + r * stride) & (kOn - 1); }
  __device__ __forceinline__ unsigned* words(int r, int column) const {
    return reinterpret_cast<unsigned*>(data + r * kPitch + column) + behind(r) / 4;
  }
  __device__ __forceinline__ int bits(int r) const { return behind(r) % 4 * 8; }
  __device__ __forceinline__ T* row(int r) const { return data + r * kPitch + behind(r) / int(sizeof(T)); }
};

// Writes 16 bytes of shared memory: the first `count` bytes of `from`, then zeros. The function reads single bytes,
// because the memory may end with the row.
__device__ __forceinline__ void store_bytes(char* to, const char* from, int count) {
#pragma unroll
  for (int word = 0; word < 4; ++word) {
    unsigned bytes = 0;
#pragma unroll
    for (int b = 0; b < 4; ++b)
      if (4 * word + b < count) bytes |= unsigned(static_cast<unsigned char>(from[4 * word + b])) << 8 * b;
    reinterpret_cast<unsigned*>(to)[word] = bytes;
  }
}

// Loads `rows` rows of a box that starts at (x0, y0), by copies of single threads. The address of each row modulo
// kRowStart bytes is that of the row in memory. Elements above, below and right of the image are 0, elements left of it
// are undefined. `pitch`: bytes. The caller waits for the copies, then for a barrier.
template <int pitch, int rows, int warps, typename T>
__device__ __forceinline__ void load_rows(const PlaneGeometry& planes, const T* plane, T* shared, int x0, int y0) {
  constexpr int bytes = sizeof(T), chunks = pitch / 16;
  const int lane = threadIdx.x % 32, in_bytes = planes.in_w * bytes, begin = x0 * bytes;
  const int64_t stride = planes.in_stride_h * bytes;
  const char* base = reinterpret_cast<const char*>(plane) + y0 * stride + begin;
  char* box = reinterpret_cast<char*>(shared) + 16 * lane;
  const bool inside = y0 >= 0 && y0 + rows <= planes.in_h && begin >= kRowStart && begin + pitch <= in_bytes;
  if (inside) {
#pragma unroll 4
    for (int r = threadIdx.x / 32; r < rows; r += warps) {
      const char* row =
          reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(base + r * stride) & ~uintptr_t(kRowStart - 1));
      unroll<0, chunks, 32>([&](auto i) {
        if (i + 32 <= chunks || i + lane < chunks) async_copy<16>(box + r * pitch + 16 * i, row + 16 * (i + lane));
      });
    }
  } else {
    for (int r = threadIdx.x / 32; r < rows; r += warps) {
      const char* row = base + r * stride;
      const int behind = int(reinterpret_cast<uintptr_t>(row) & (kRowStart - 1));
      unroll<0, chunks, 32>([&](auto i) {
        const int column = begin - behind + 16 * (i + lane), stand = in_bytes - column;
        const bool some = unsigned(y0 + r) < unsigned(planes.in_h) && column > -16 && stand > 0;
        const char* from = row - behind + 16 * (i + lane);
        char* const to = box + r * pitch + 16 * i;
        if (i + lane < chunks) {
          if (some && stand >= 16) async_copy<16>(to, from);
          else store_bytes(to, from, some ? stand : 0);
        }
      });
    }
  }
}

// A warp stores columns [first, last) of a row of `covered` outputs from shared memory to `row`, by aligned vectors of
// 16 bytes. The row starts in the 16 bytes at `staged`, at the offset that `row` has modulo 16. Elements at an end of
// the image's rows are stored one by one. (uint8 3x3 of 7x3x1081x1917 on one NVIDIA H200: 45 us; 55 us by words of 4
// bytes.)
template <int covered, typename O>
__device__ __forceinline__ void store_staged(O* row, int first, int last, bool at_an_end, const unsigned* staged) {
  constexpr int size = sizeof(O), words = covered * size / 16;
  const int lane = threadIdx.x % 32, phase = int(reinterpret_cast<uintptr_t>(row) & 15);
  // A lane stores one vector. In shared memory the row starts at a word, so that its bytes are phase % 4 bytes ahead of
  // memory's. Lanes beyond the last vector read the last one.
  const int begin = first * size, end = last * size;
  unroll<0, words, 32>([&](auto i) {
    const int at = 16 * (i + lane) - phase;
    const unsigned* from = staged + 4 * min(i + lane, words);
    Pack<4, unsigned> v = load_pack<4>(from);
    if constexpr (size < 4) {
      const int bits = phase % 4 * 8;
      const unsigned before = from[-1];
      v = {{__funnelshift_l(before, v.v[0], bits), __funnelshift_l(v.v[0], v.v[1], bits),
            __funnelshift_l(v.v[1], v.v[2], bits), __funnelshift_l(v.v[2], v.v[3], bits)}};
    }
    store_pack_if(at >= begin && at + 16 <= end, reinterpret_cast<unsigned*>(reinterpret_cast<char*>(row) + at), v);
  });
  if (at_an_end) {
    const int head = min(((begin + phase + 15) & ~15) - phase, end), tail = max(((end + phase) & ~15) - phase, head);
    const int e = lane < 16 ? begin + lane * size : tail + (lane - 16) * size;
    if (e < (lane < 16 ? head : end)) row[e / size] = reinterpret_cast<const O*>(staged + phase / 4)[e / size];
  }
}

// Stores columns [first, last) of a row that a warp computes. put(words) writes the row into `stage`, from `words` on.
// A stage is used again two rows later.
template <int covered, typename O, class Put>
__device__ __forceinline__ void store_unaligned(O* row, int first, int last, bool at_an_end, void* stage,
                                                const Put& put) {
  unsigned* staged = static_cast<unsigned*>(stage) + 4;
  put(staged + (reinterpret_cast<uintptr_t>(row) & 15) / 4);
  __syncwarp();
  store_staged<covered>(row, first, last, at_an_end, staged);
}

}  // namespace torch_conv
