// TILE and REG: the rounding of rows of sums, and the zeros for windows that overlap the image's edge.
#pragma once

#include "core/cuda/packed.cuh"
#include "core/cuda/unaligned_rows.cuh"
#include "kernels/direct2d/shared/planes.h"

namespace torch_conv::direct2d {

// Border::zero_output: overwrites an output by zero if a tap of its window is outside the image. The function computes
// the tile's position again, so that the sums leave no registers to it. `W`: TileTraits or RegTraits.
template <class W, typename O>
__device__ __noinline__ void clear_where_outside(const PlaneArgs& a) {
  constexpr PlaneWindow w = W::window;
  constexpr int kStride = w.stride, kWidth = W::shape.width(), kCovered = W::shape.covered(), kRows = W::shape.rows;
  const TilePosition at = W::position(a.order);
  const int y = int(at.y * (blockDim.x / 32) + threadIdx.x / 32) * kRows, x0 = int(at.x * kWidth) - a.lead;
  const int last = min(x0 + kCovered, a.planes.out_w);
  __syncwarp();
  for (int o = 0; o < kRows && y + o < a.planes.out_h; ++o) {
    const int top = (y + o) * kStride + a.shift_y - w.above();
    const bool fits = a.peers.inside(top, top + w.rows() - 1, a.planes.in_h);
    for (int x = max(x0, 0) + threadIdx.x % 32; x < last; x += 32) {
      const int left = x * kStride + a.shift_x - w.left();
      if (!fits || left < 0 || left + w.left() + w.right() >= a.planes.in_w)
        *a.planes.out_at<O>(at.n, at.c, y + o, W::offset(x, a.out_pixel)) = from_acc<O>(0.f);
    }
  }
}

// Adds the bias to a row of sums and rounds it.
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

}  // namespace torch_conv::direct2d
