// What becomes of the outputs of PRODUCTS: how lanes store them, and how single ones are made by the plain chain.
#pragma once

#include "core/device.cuh"
#include "core/unaligned_rows.cuh"
#include "direct2d/products.h"

namespace torch_conv::direct2d::products {

// Is output (x, y) one of those that zero_output clears?
template <int KH, int KW>
__device__ __forceinline__ bool hangs_over(const ProductArgs& a, int x, int y) {
  const int left = x - a.pad_x, top = y - a.pad_y;
  return left < 0 || left + KW > a.planes.in_w || !a.beside.inside(top, top + KH - 1, a.planes.in_h);
}

// Rows of outputs that wait in shared memory for the words of memory that they become: each starts at the word of its
// phase.
template <typename T>
struct WaitingRows : PhasedRows<T, ProductShape::waiting_pitch(), 16> {
  __device__ __forceinline__ T* row(int r) const { return reinterpret_cast<T*>(this->words(r, 0)); }
};

// Rows of outputs in memory.
template <typename T>
struct StoredRows {
  T* data;
  int64_t stride;
  __device__ __forceinline__ T* row(int r) const { return data + r * stride; }
};

// One output by the plain chain. Its window starts at (row, column) of `windows`.
template <typename T, int KH, int KW, class Windows>
__device__ __forceinline__ T make_plainly(const Windows& windows, int row, int column, const float* taps, float bias) {
  constexpr ProductShape s = product_shape(KH, KW);
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < KH; ++i)
#pragma unroll 1
    for (int j = 0; j < KW; ++j) sum = fmaf(taps[s.tap_at(i, j)], to_acc<float>(windows.row(row + i)[column + j]), sum);
  return from_acc<T>(sum + bias);
}

// What a warp's products leave to do: outputs that are not finite are made again, and with `mask` those are 0 whose
// windows hang over. The warp's outputs begin at (x, y): `outputs`, whose windows start in `windows`.
template <typename T, int KH, int KW, class Outputs, class Windows>
__device__ __noinline__ void mend(const ProductArgs& a, Outputs outputs, Windows windows, const float* taps, float bias,
                                  int x, int y, bool mask) {
  constexpr ProductShape s = product_shape(KH, KW);
  __syncwarp();  // other lanes stored what this one reads
#pragma unroll 1
  for (int e = threadIdx.x % 32; e < s.warp_w * s.height; e += 32) {
    const int column = e % s.warp_w, row = e / s.warp_w;
    if (x + column >= a.planes.out_w || y + row >= a.planes.out_h) continue;
    T* const to = outputs.row(row) + column;
    const float was = to_acc<float>(*to);
    if (mask && hangs_over<KH, KW>(a, x + column, y + row)) *to = from_acc<T>(0.f);
    else if (was - was != 0) *to = make_plainly<T, KH, KW>(windows, row, column, taps, bias);
  }
}

template <typename T, int N>
__device__ __forceinline__ void store_words(T* to, const unsigned (&word)[N], bool inside) {
  Pack<2 * N, T> pack;
  memcpy(&pack, word, sizeof(pack));
  store_pack_if(inside, to, pack);
}

}  // namespace torch_conv::direct2d::products
