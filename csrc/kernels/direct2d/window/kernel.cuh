// WINDOW: any window size at stride and dilation 1, any layout and pair of dtypes.
//
//     shared memory
//     +--------------------------+  -
//     | halo                     |  |
//     |   +------------------+   |  | 32 +     a warp: 128 columns (a lane owns 4 neighbours) x 8 rows of sums
//     |   | warp 0 .. warp 3 |   |  | kh - 1
//     |   +------------------+   |  |
//     +--------------------------+  -
//     | taps, rows padded to 4   |
//     +--------------------------+
//
// A lane reads a row of pixels once, four at a time, and adds the row to the 8 rows of sums over it. One read of four
// pixels and one of four broadcast taps serve 16 multiply-adds. Arithmetic limits the speed: 128 multiply-adds of a
// warp take 32 issue slots, and 12 wavefronts of shared memory (4 of pixels, 8 of taps). Device memory: 1 read (halos
// come from L2), 1 write; 2 kh kw flops a pixel.
#pragma once

#include "core/cuda/device.cuh"
#include "core/cuda/store.cuh"
#include "kernels/direct2d/window/params.h"

namespace torch_conv::direct2d {

template <typename T>
__global__ void __launch_bounds__(32 * kWindowWarps)
    direct2d_window(const __grid_constant__ WindowArgs a, const __grid_constant__ ParamTaps param_taps) {
  using A = acc_t<T>;
  const Direct& p = a.p;
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  A* tile = reinterpret_cast<A*>(shared_bytes);
  A* taps = tile + a.pitch * a.rows;
  const int kh = int(p.kh), kw = int(p.kw), threads = 32 * kWindowWarps;

  const unsigned row = blockIdx.x / unsigned(a.tiles_x), plane = row / unsigned(a.tiles_y);
  const int x0 = int(blockIdx.x % unsigned(a.tiles_x)) * kWindowColumns;
  const int y0 = int(row % unsigned(a.tiles_y)) * kWindowWarps * kWindowRows;
  const int co = int(plane % unsigned(p.out.c)), n = int(plane / unsigned(p.out.c));
  const int bx = x0 - int(p.place.pad_x), by = y0 - int(p.place.pad_y);  // the tile's first input
  // Only inputs of outputs inside the image are read: other inputs may be far outside.
  const int columns = min(kWindowColumns, int(p.out.w) - x0) + kw - 1;
  const int rows = min(kWindowWarps * kWindowRows, int(p.out.h) - y0) + kh - 1;
  const A* all_taps = param_taps.first<A>() + n * p.taps.stride_n + co * p.taps.stride_c;
  const A outside = A(p.place.value);

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  A sum[kWindowRows][4] = {};
  for (int ci = 0; ci < a.in_per_group; ++ci) {
    const int64_t channel = int64_t(co / a.out_per_group) * a.in_per_group + ci;
    const T* source = static_cast<const T*>(p.in.data) + n * p.in.stride_n + channel * p.in.stride_c;
    __syncthreads();
    for (int r = warp; r < rows; r += kWindowWarps) {
      const int my = a.peers.map_row(by + r, int(p.in.h), p.place.border);
      const bool in_rows = my != PeerRows::kOutside;
      const T* from = a.peers.row(source, p.in.stride_h, in_rows ? my : 0, p.in.h, n, channel);
      for (int i = lane; i < columns; i += 32) {
        const int mx = map_index(bx + i, int(p.in.w), p.place.border);
        tile[r * a.pitch + i] = in_rows && mx >= 0 ? to_acc<A>(from[mx * p.in.stride_w]) : outside;
      }
    }
    for (int i = threadIdx.x; i < kh * kw; i += threads)
      taps[i / kw * a.tap_pitch + i % kw] = all_taps[ci * p.taps.stride_ci + i];
    __syncthreads();

    for (int r = 0; r < kWindowRows + kh - 1; ++r) {
      const A* from = tile + (warp * kWindowRows + r) * a.pitch + 4 * lane;
      Pack<4, A> left = *reinterpret_cast<const Pack<4, A>*>(from);
      for (int j = 0; j < kw; j += 4) {
        const Pack<4, A> right = *reinterpret_cast<const Pack<4, A>*>(from + j + 4);
        const A v[8] = {left.v[0], left.v[1], left.v[2], left.v[3], right.v[0], right.v[1], right.v[2], right.v[3]};
        const int taps_here = kw - j;
#pragma unroll
        for (int o = 0; o < kWindowRows; ++o) {
          const int i = r - o;  // row of the window over output row o
          if (i < 0 || i >= kh) continue;
          const Pack<4, A> tap = *reinterpret_cast<const Pack<4, A>*>(taps + i * a.tap_pitch + j);
#pragma unroll
          for (int t = 0; t < 4; ++t) {
            if (t > 0 && t >= taps_here) continue;  // the padding behind a row of taps
#pragma unroll
            for (int q = 0; q < 4; ++q) sum[o][q] = fma(tap.v[t], v[q + t], sum[o][q]);
          }
        }
        left = right;
      }
    }
  }

  const A bias = p.bias ? static_cast<const A*>(p.bias)[co] : A(0);
#pragma unroll
  for (int o = 0; o < kWindowRows; ++o) {
    const int y = y0 + warp * kWindowRows + o;
    if (y >= p.out.h) break;
    const int64_t offset = n * p.out.stride_n + co * p.out.stride_c + y * p.out.stride_h;
    const int64_t top = y - p.place.pad_y;
    const bool fits_y = a.peers.inside(top, top + kh - 1, p.in.h);
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int x = x0 + 4 * lane + q;
      if (x >= p.out.w) break;
      const bool fits = fits_y && x >= p.place.pad_x && x - p.place.pad_x + kw <= p.in.w;
      const bool zero = p.place.border == Border::zero_output && !fits;
      store_as(p.out, offset + x * p.out.stride_w, zero ? A(0) : sum[o][q] + bias);
    }
  }
}

}  // namespace torch_conv::direct2d
