// GENERAL: any window, stride, dilation, pair of dtypes, layout, border and grouping.
//
// A thread computes four neighbouring pixels of a row: a tap is read once for the four. At stride and dilation 1, each
// next tap reads one new pixel. Lanes follow the axis that is contiguous in memory: x, or interleaved channels.
// Windows that stay inside a row run without the border map. Loads per multiply-add: 2/4 at stride 1, 5/4 else; they
// come from L1.
#pragma once

#include "core/cuda/general_window.cuh"
#include "core/cuda/store.cuh"
#include "core/taps.h"

namespace torch_conv::direct2d {

template <typename T>
__global__ void __launch_bounds__(256)
    direct2d_general(const __grid_constant__ GeneralWindowArgs a, const __grid_constant__ ParamTaps param_taps) {
  using A = acc_t<T>;
  const Direct& p = a.p;
  const Placement& s = p.place;
  int64_t index = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= a.threads) return;
  int64_t co, x, y;
  if (a.channels_inner) {
    co = index % p.out.c, index /= p.out.c;
    x = index % a.groups_of_four * 4, index /= a.groups_of_four;
    y = index % p.out.h, index /= p.out.h;
  } else {
    x = index % a.groups_of_four * 4, index /= a.groups_of_four;
    y = index % p.out.h, index /= p.out.h;
    co = index % p.out.c, index /= p.out.c;
  }
  const int64_t n = index, group = co / a.out_per_group;
  const A* taps = param_taps.first<A>() + n * p.taps.stride_n + co * p.taps.stride_c;

  A sum[4] = {};
  for (int64_t ci = 0; ci < a.in_per_group; ++ci) {
    const int64_t channel = group * a.in_per_group + ci;
    const T* plane = static_cast<const T*>(p.in.data) + n * p.in.stride_n + channel * p.in.stride_c;
    const A* window = taps + ci * p.taps.stride_ci;
    for (int64_t i = 0; i < p.kh; ++i) {
      const int64_t m = a.peers.map_row(y * s.stride_y + i * s.dilation_y - s.pad_y, p.in.h, s.border);
      const T* row = m == PeerRows::kOutside ? nullptr : a.peers.row(plane, p.in.stride_h, m, p.in.h, n, channel);
      add_window_row<T, A>(p, row, window + i * p.kw, x, sum);
    }
  }

  const A bias = p.bias ? static_cast<const A*>(p.bias)[co] : A(0);
  const int64_t offset = n * p.out.stride_n + co * p.out.stride_c + y * p.out.stride_h;
  const int64_t top = y * s.stride_y - s.pad_y;
  const bool fits_y = a.peers.inside(top, top + (p.kh - 1) * s.dilation_y, p.in.h);
  for (int q = 0; q < 4 && x + q < p.out.w; ++q) {
    A value = sum[q] + bias;
    const int64_t left = (x + q) * s.stride_x - s.pad_x;
    const bool fits = fits_y && left >= 0 && left + (p.kw - 1) * s.dilation_x < p.in.w;
    if (s.border == Border::zero_output && !fits) value = 0;
    if (s.normalized) value /= taps_inside<2>(p, a.peers, taps, 0, y, x + q);
    store_as(p.out, offset + (x + q) * p.out.stride_w, value);
  }
}

}  // namespace torch_conv::direct2d
