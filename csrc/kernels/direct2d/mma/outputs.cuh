// MMA: the stores of outputs, and single outputs by the plain chain.
#pragma once

#include "core/cuda/device.cuh"
#include "core/cuda/interleaved.cuh"
#include "core/cuda/unaligned_rows.cuh"
#include "core/cuda/unroll.cuh"
#include "kernels/direct2d/mma/params.h"

namespace torch_conv::direct2d::mma {

// True if Border::zero_output clears output (x, y).
__device__ __forceinline__ bool overlaps_edge(const MmaShape& s, const MmaArgs& a, int x, int y) {
  const int left = x - a.pad_x, top = y - a.pad_y;
  return left < 0 || left + s.kw > a.planes.in_w || !a.peers.inside(top, top + s.kh - 1, a.planes.in_h);
}

// Rows of outputs that wait in shared memory. Each row starts at the word of its phase in memory.
template <typename T, int kPitch>
struct WaitingRows : PhasedRows<T, kPitch, 16> {
  __device__ __forceinline__ T* row(int r) const { return reinterpret_cast<T*>(this->words(r, 0)); }
};

// Rows of outputs in memory.
template <typename T>
struct StoredRows {
  T* data;
  int64_t stride;
  __device__ __forceinline__ T* row(int r) const { return data + r * stride; }
};

// Computes one output by the plain chain. Its window starts at element `column` of row `row` of `windows`, whose pixels
// are `pixel` elements apart.
template <typename T, class Windows>
__device__ __forceinline__ T plain_output(const MmaShape& s, const Windows& windows, int row, int column, int pixel,
                                          const float* taps, float bias) {
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < s.kh; ++i)
#pragma unroll 1
    for (int j = 0; j < s.kw; ++j)
      sum = fmaf(taps[s.tap_at(i, j)], to_acc<float>(windows.row(row + i)[column + j * pixel]), sum);
  return from_acc<T>(sum + bias);
}

// Computes a warp's outputs that are not finite again. With `mask`, clears outputs whose windows overlap the image's
// edge. `outputs` begin at (x, y), and their windows start in `windows`.
template <typename T, MmaShape s, class Outputs, class Windows>
__device__ __noinline__ void correct_outputs(const MmaArgs& a, Outputs outputs, Windows windows, const float* taps,
                                             float bias, int x, int y, bool mask) {
  constexpr int kColumns = s.warp_w() * s.channels;
  __syncwarp();  // this lane reads outputs of other lanes
#pragma unroll 1
  for (int e = threadIdx.x % 32; e < kColumns * s.height; e += 32) {
    const int column = e % kColumns, row = e / kColumns, pixel = x + column / s.channels;
    if (pixel >= a.planes.out_w || y + row >= a.planes.out_h) continue;
    T* const to = outputs.row(row) + column;
    const float value = to_acc<float>(*to);
    if (mask && overlaps_edge(s, a, pixel, y + row)) *to = from_acc<T>(0.f);
    else if (value - value != 0)
      *to = plain_output<T>(s, windows, row, column, s.channels, taps + column % s.windows * s.all_taps(), bias);
  }
}

template <typename T, int N>
__device__ __forceinline__ void store_words(T* to, const unsigned (&word)[N], bool inside) {
  Pack<2 * N, T> pack;
  memcpy(&pack, word, sizeof(pack));
  store_pack_if(inside, to, pack);
}

// Interleaves two pixels: each word of `pairs` holds one of their channels. `kAligned`: `to` is aligned to the two
// pixels.
template <bool kAligned, int channels>
__device__ __forceinline__ void put_pixels(unsigned* to, const unsigned (&pairs)[channels]) {
  Pack<channels, unsigned> words;
  unroll<0, channels, 1>([&](auto i) { words.v[i] = two_pixels<decltype(i)::value>(pairs); });
  if constexpr (kAligned && channels % 2 == 0) {
    *reinterpret_cast<Pack<channels, unsigned>*>(to) = words;
  } else {
#pragma unroll
    for (int i = 0; i < channels; ++i) to[i] = words.v[i];
  }
}

// Stores a warp's rows of a step as vectors of 16 bytes. The rows are `step_pitch` elements apart in shared memory.
// `to`: the step's first output; `rows` and `columns` (elements) of the step are inside the image.
template <typename T, MmaShape s>
__device__ __forceinline__ void store_step(T* to, int64_t stride, const T* from, int rows, int columns) {
  constexpr int kAcross = s.warp_w() * s.channels / 8, kAll = s.patch_h * kAcross;
  __syncwarp();
#pragma unroll
  for (int first = 0; first < kAll; first += 32) {
    const int i = first + int(threadIdx.x % 32), row = i / kAcross, column = i % kAcross * 8;
    if (first + 32 > kAll && i >= kAll) break;
    store_pack_if(row < rows && column < columns, to + row * stride + column,
                  load_pack<8>(from + row * s.step_pitch() + column));
  }
  __syncwarp();
}

}  // namespace torch_conv::direct2d::mma
