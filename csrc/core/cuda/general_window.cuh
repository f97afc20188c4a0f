// For the general kernels: a row of a window over four neighbouring pixels, the sum of a window's taps inside.
#pragma once

#include "core/cuda/device.cuh"
#include "core/general_window.h"

namespace torch_conv {

// For normalised skip: the sum of the |taps| inside an image (kAxes 2) or a volume (kAxes 3).
template <int kAxes, typename A>
__device__ A taps_inside(const Direct& p, const PeerRows& peers, const A* taps, int64_t z, int64_t y, int64_t x) {
  const Placement& s = p.place;
  A sum = 0;
  for (int64_t l = 0; l < (kAxes == 3 ? p.kd : 1); ++l) {
    const int64_t zl = z * s.stride_z + l * s.dilation_z - s.pad_z;
    if (kAxes == 3 && (zl < 0 || zl >= p.in.d)) continue;
    for (int64_t i = 0; i < p.kh; ++i) {
      const int64_t yi = y * s.stride_y + i * s.dilation_y - s.pad_y;
      if (!peers.inside(yi, yi, p.in.h)) continue;
      for (int64_t j = 0; j < p.kw; ++j) {
        const int64_t xj = x * s.stride_x + j * s.dilation_x - s.pad_x;
        if (xj >= 0 && xj < p.in.w) sum += abs(taps[(l * p.kh + i) * p.kw + j]);
      }
    }
  }
  return sum;
}

// Adds one row of the window for the four pixels from column `x` of the output on. `row` is null outside the image.
template <typename T, typename A>
__device__ __forceinline__ void add_window_row(const Direct& p, const T* row, const A* taps, int64_t x, A (&sum)[4]) {
  const Placement& s = p.place;
  if (!row) {
    if (s.border == Border::constant)
      for (int64_t j = 0; j < p.kw; ++j)
#pragma unroll
        for (int q = 0; q < 4; ++q) sum[q] = fma(taps[j], A(s.value), sum[q]);
    return;
  }
  const int64_t first = x * s.stride_x - s.pad_x, step = p.in.stride_w;
  const int64_t last = first + 3 * s.stride_x + (p.kw - 1) * s.dilation_x;
  if (first >= 0 && last < p.in.w) {
    const T* at = row + first * step;
    if (s.stride_x == 1 && s.dilation_x == 1) {
      A v0 = to_acc<A>(at[0]), v1 = to_acc<A>(at[step]), v2 = to_acc<A>(at[2 * step]);
      at += 3 * step;
#pragma unroll 4
      for (int64_t j = 0; j < p.kw; ++j, at += step) {
        const A tap = taps[j], v3 = to_acc<A>(*at);
        sum[0] = fma(tap, v0, sum[0]);
        sum[1] = fma(tap, v1, sum[1]);
        sum[2] = fma(tap, v2, sum[2]);
        sum[3] = fma(tap, v3, sum[3]);
        v0 = v1, v1 = v2, v2 = v3;
      }
    } else {
      for (int64_t j = 0; j < p.kw; ++j)
#pragma unroll
        for (int q = 0; q < 4; ++q)
          sum[q] = fma(taps[j], to_acc<A>(at[(q * s.stride_x + j * s.dilation_x) * step]), sum[q]);
    }
    return;
  }
  for (int64_t j = 0; j < p.kw; ++j)
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int64_t m = map_index(first + q * s.stride_x + j * s.dilation_x, p.in.w, s.border);
      if (m < 0 && s.border != Border::constant) continue;
      sum[q] = fma(taps[j], m < 0 ? A(s.value) : to_acc<A>(row[m * step]), sum[q]);
    }
}

}  // namespace torch_conv
