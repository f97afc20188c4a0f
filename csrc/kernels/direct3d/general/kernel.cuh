// GENERAL: any window, stride, dilation, pair of dtypes, layout, border and grouping.
//
// A thread computes four neighbouring voxels of a row: a tap is read once for the four. At stride and dilation 1, each
// next tap reads one new voxel. Lanes follow the axis that is contiguous in memory: x, or interleaved channels.
// Windows that stay inside a row run without the border map. Loads per multiply-add: 2/4 at stride 1, 5/4 else; they
// come from L1.
#pragma once

#include "core/cuda/general_window.cuh"
#include "core/cuda/store.cuh"
#include "core/taps.h"

namespace torch_conv::direct3d {

template <typename T>
__global__ void __launch_bounds__(256)
    direct3d_general(const __grid_constant__ GeneralWindowArgs a, const __grid_constant__ ParamTaps param_taps) {
  using A = acc_t<T>;
  const Direct& p = a.p;
  const Placement& s = p.place;
  int64_t index = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= a.threads) return;
  int64_t co = 0;
  if (a.channels_inner) co = index % p.out.c, index /= p.out.c;
  const int64_t x = index % a.groups_of_four * 4;
  index /= a.groups_of_four;
  const int64_t y = index % p.out.h;
  index /= p.out.h;
  const int64_t z = index % p.out.d;
  index /= p.out.d;
  if (!a.channels_inner) co = index % p.out.c, index /= p.out.c;
  const int64_t n = index, group = co / a.out_per_group;
  const A* taps = param_taps.first<A>() + n * p.taps.stride_n + co * p.taps.stride_c;

  A sum[4] = {};
  for (int64_t ci = 0; ci < a.in_per_group; ++ci) {
    const T* volume =
        static_cast<const T*>(p.in.data) + n * p.in.stride_n + (group * a.in_per_group + ci) * p.in.stride_c;
    const A* row_taps = taps + ci * p.taps.stride_ci;
    for (int64_t l = 0; l < p.kd; ++l) {
      const int64_t mz = map_index(z * s.stride_z + l * s.dilation_z - s.pad_z, p.in.d, s.border);
      for (int64_t i = 0; i < p.kh; ++i, row_taps += p.kw) {
        const int64_t my = map_index(y * s.stride_y + i * s.dilation_y - s.pad_y, p.in.h, s.border);
        const T* row = mz < 0 || my < 0 ? nullptr : volume + mz * p.in.stride_d + my * p.in.stride_h;
        add_window_row<T, A>(p, row, row_taps, x, sum);
      }
    }
  }

  const A bias = p.bias ? static_cast<const A*>(p.bias)[co] : A(0);
  const int64_t offset = n * p.out.stride_n + co * p.out.stride_c + z * p.out.stride_d + y * p.out.stride_h;
  const auto fits = [](int64_t first, int64_t k, int64_t dilation, int64_t size) {
    return first >= 0 && first + (k - 1) * dilation < size;
  };
  const bool fits_zy = fits(z * s.stride_z - s.pad_z, p.kd, s.dilation_z, p.in.d) &&
                       fits(y * s.stride_y - s.pad_y, p.kh, s.dilation_y, p.in.h);
  for (int q = 0; q < 4 && x + q < p.out.w; ++q) {
    A value = p.bias ? sum[q] + bias : sum[q];
    const bool inside = fits_zy && fits((x + q) * s.stride_x - s.pad_x, p.kw, s.dilation_x, p.in.w);
    if (s.border == Border::zero_output && !inside) value = 0;
    if (s.normalized) value /= taps_inside<3>(p, PeerRows{}, taps, z, y, x + q);
    store_as(p.out, offset + (x + q) * p.out.stride_w, value);
  }
}

}  // namespace torch_conv::direct3d
