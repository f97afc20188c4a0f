// The tile of a block of TILE and REG: how its box comes into shared memory by plain loads, how its rows are stored.
#pragma once

#include "core/device.cuh"
#include "direct2d/params.h"

namespace torch_conv::direct2d {

// `zero_output`: is every tap of the window over output (y, x) inside the image?
template <int KH, int KW>
__device__ __forceinline__ bool window_fits(const PlaneArgs& a, int y, int x) {
  const int top = y + a.shift_y - middle_of(KH), left = x + a.shift_x - middle_of(KW);
  return a.beside.inside(top, top + KH - 1, a.planes.in_h) && left >= 0 && left + KW <= a.planes.in_w;
}

// One output row of a lane, rounded. Aligned rows are stored by whole packs, whose last columns are all inside.
template <int KH, int KW, bool kAligned, int N, typename T>
__device__ __forceinline__ void store_row(const PlaneArgs& a, T* row, int y, int x, const acc_t<T> (&sum)[N],
                                          acc_t<T> bias, bool mask) {
  Pack<N, T> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.v[i] = from_acc<T>(sum[i] + bias);
  if (mask) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (!window_fits<KH, KW>(a, y, x + i)) pack.v[i] = from_acc<T>(acc_t<T>(0));
  }
  if constexpr (kAligned) {
    store_pack_if(y < a.planes.out_h && x < a.planes.out_w, row + x, pack);
  } else if (y < a.planes.out_h) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (x + i >= 0 && x + i < a.planes.out_w) row[x + i] = pack.v[i];
  }
}

// Plain loads into the layout of the bulk copy, zeros outside the image. Barrier after it.
template <typename T, int KH, int KW>
__device__ void load_tile_plain(const PlaneArgs& a, const T* plane, T* shared, int x0, int y0) {
  constexpr TileShape shape = tile_shape(sizeof(T), KH, KW);
  constexpr int vector = 16 / sizeof(T), pitch = shape.shared_width();
  constexpr int rows = shape.height() + KH - 1;
  // Only the halo's nearest vectors are read later, not the whole pad.
  constexpr int halo = KW > 1 ? (KW / 2 + vector - 1) / vector * vector : vector;
  constexpr int first = shape.pad - halo, columns = shape.width() + 2 * halo;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool vectors = a.vector_in && a.shift_x == 0;
  for (int r = warp; r < rows; r += TileShape::warps) {
    const int y = y0 + r;
    const bool inside_y = y >= 0 && y < a.planes.in_h;
    const T* row = plane + int64_t(inside_y ? y : 0) * a.planes.in_stride_h;
    T* to = shared + r * pitch + first;
    if (vectors) {
      for (int i = lane * vector; i < columns; i += 32 * vector) {
        const int x = x0 + first + i;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (inside_y && x >= 0 && x < a.planes.in_w) v = *reinterpret_cast<const uint4*>(row + x);
        *reinterpret_cast<uint4*>(to + i) = v;
      }
    } else {
      for (int i = lane; i < columns; i += 32) {
        const int x = x0 + first + i;
        to[i] = inside_y && x >= 0 && x < a.planes.in_w ? row[x] : from_acc<T>(acc_t<T>(0));
      }
    }
  }
}

}  // namespace torch_conv::direct2d
