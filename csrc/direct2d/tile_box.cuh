// The tile of a block of TILE and REG: how its box comes into shared memory without bulk copies, how its rows are
// stored.
#pragma once

#include "core/async_copy.cuh"
#include "core/unroll.cuh"
#include "core/words.cuh"
#include "direct2d/params.h"

namespace torch_conv::direct2d {

// `zero_output`: zeros where a tap of the window lies outside the image, over what the warp has stored of its tile,
// which it finds once more, so that the sums before need not keep it.
template <class W, typename O>
__device__ __noinline__ void clear_where_outside(const PlaneArgs& a) {
  constexpr TileWindow w = W::window;
  constexpr int stride = w.stride, width = W::shape.width(), covered = W::shape.covered(), rows = W::shape.rows;
  const TilePlace at = a.order.at(blockIdx.x);
  const int y = int(at.y * (blockDim.x / 32) + threadIdx.x / 32) * rows, x0 = int(at.x * width) - a.lead;
  const int last = min(x0 + covered, a.planes.out_w);
  __syncwarp();
  for (int o = 0; o < rows && y + o < a.planes.out_h; ++o) {
    const int top = (y + o) * stride + a.shift_y - w.above();
    const bool fits = a.beside.inside(top, top + w.rows() - 1, a.planes.in_h);
    for (int x = max(x0, 0) + threadIdx.x % 32; x < last; x += 32) {
      const int left = x * stride + a.shift_x - w.left();
      if (!fits || left < 0 || left + w.left() + w.right() >= a.planes.in_w)
        *a.planes.out_at<O>(at.n, at.c, y + o, W::offset(x, a.out_pixel)) = from_acc<O>(0.f);
    }
  }
}

// What a row of sums becomes.
template <bool kBias, typename O, int N>
__device__ __forceinline__ Pack<N, O> finished(const float (&sum)[N], float bias) {
  if constexpr (kBias) {
    float v[N];
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = sum[i] + bias;
    return narrow_pack<O>(v);
  } else {
    return narrow_pack<O>(sum);
  }
}

// A row of a warp's outputs, of columns [first, last) and starting anywhere, as the words of 16 bytes that memory has;
// what is left at an end of the image's rows goes out one by one. `row`: the tile's column 0; put(words): writes the
// row into `stage` from there on. The warp's lanes; a stage is used again two rows later. (In words of 4 bytes, and
// with both tiles storing their part of a word where they meet, uint8 3x3 of 7x3x1081x1917 takes 55 us, so 45; one
// NVIDIA H200.)
template <int covered, typename O, class Put>
__device__ __forceinline__ void store_unaligned(O* row, int first, int last, bool at_an_end, void* stage,
                                                const Put& put) {
  constexpr int size = sizeof(O);
  static_assert(covered * size <= 512);
  const int lane = threadIdx.x % 32, phase = int(reinterpret_cast<uintptr_t>(row) & 15);
  unsigned* words = static_cast<unsigned*>(stage) + 4 + phase / 4;
  put(words);
  __syncwarp();
  // Lane by lane the words of memory; those of the stage are phase % 4 bytes ahead. Lanes beyond the last read it, too.
  const int at = 16 * lane - phase, begin = first * size, end = last * size;
  const unsigned* from = static_cast<const unsigned*>(stage) + 4 + 4 * min(lane, covered * size / 16);
  Pack<4, unsigned> v = load_pack<4>(from);
  if constexpr (size < 4) {
    const int bits = phase % 4 * 8;
    const unsigned before = from[-1];
    v = {{__funnelshift_l(before, v.v[0], bits), __funnelshift_l(v.v[0], v.v[1], bits),
          __funnelshift_l(v.v[1], v.v[2], bits), __funnelshift_l(v.v[2], v.v[3], bits)}};
  }
  store_pack_if(at >= begin && at + 16 <= end, reinterpret_cast<unsigned*>(reinterpret_cast<char*>(row) + at), v);
  if (at_an_end) {
    const int whole = min(((begin + phase + 15) & ~15) - phase, end), rest = max(((end + phase) & ~15) - phase, whole);
    const int e = lane < 16 ? begin + lane * size : rest + (lane - 16) * size;
    if (e < (lane < 16 ? whole : end)) row[e / size] = reinterpret_cast<const O*>(words)[e / size];
  }
}

// A box in shared memory. kBehind: its rows came from wherever they start, and each lies as far behind kRowStart
// bytes here as it does in memory.
template <typename T, int kPitch, bool kBehind>
struct TileBox {
  T* data;
  unsigned address, stride;  // in memory, of row 0 and from row to row: bytes, whose last bits count

  // Where row r starts: at a word, and so many bits behind it.
  __device__ __forceinline__ int behind(int r) const { return kBehind ? (address + r * stride) & (kRowStart - 1) : 0; }
  __device__ __forceinline__ const unsigned* words(int r, int column) const {
    return reinterpret_cast<const unsigned*>(data + r * kPitch + column) + behind(r) / 4;
  }
  __device__ __forceinline__ int bits(int r) const { return behind(r) % 4 * 8; }
  __device__ __forceinline__ T* row(int r) const { return data + r * kPitch + behind(r) / int(sizeof(T)); }
};

// 16 bytes of shared memory: the first `count` of `from`, zeros behind. The end of an image's rows may be that of its
// memory, beyond which no word is read.
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

// The rows of a box by copies of single threads: zeros above, below and right of the image, and left of it whatever
// lies there. Barrier after it.
template <typename T, class W>
__device__ __forceinline__ void load_rows(const PlaneArgs& a, const T* plane, T* shared, int x0, int y0) {
  constexpr int bytes = sizeof(T), pitch = W::shape.pitch() * bytes, chunks = pitch / 16;
  constexpr int rows = W::shape.box_rows(W::window), warps = TileShape::warps;
  const int lane = threadIdx.x % 32, in_bytes = a.planes.in_w * bytes, begin = x0 * bytes;
  const int64_t stride = a.planes.in_stride_h * bytes;
  const char* base = reinterpret_cast<const char*>(plane) + y0 * stride + begin;
  char* box = reinterpret_cast<char*>(shared) + 16 * lane;
  const bool inside = y0 >= 0 && y0 + rows <= a.planes.in_h && begin >= kRowStart && begin + pitch <= in_bytes;
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
        const bool some = unsigned(y0 + r) < unsigned(a.planes.in_h) && column > -16 && stand > 0;
        const char* from = row - behind + 16 * (i + lane);
        char* const to = box + r * pitch + 16 * i;
        if (i + lane < chunks) {
          if (some && stand >= 16) async_copy<16>(to, from);
          else store_bytes(to, from, some ? stand : 0);
        }
      });
    }
  }
  async_wait_all();
}

}  // namespace torch_conv::direct2d
