// WINDOW: any window at stride and dilation 1, any layout and pair of dtypes.
//
//     a plane in shared memory, twice
//     +--------------------------+  -
//     | halo                     |  |
//     |   +------------------+   |  | height
//     |   | warp 0 .. warp 3 |   |  | + kh
//     |   +------------------+   |  | - 1
//     |                          |  |
//     +--------------------------+  -
//     one plane of taps for each output
//     plane, and the next; rows padded to 4
//
// A block computes a tile of one or two output planes. Four warps add the window to one plane of the input after the
// other. Meanwhile the next plane and its taps arrive, mapped by the border and converted: by asynchronous copies where
// the elements need no conversion, else by loader warps.
//
// A lane owns 16 neighbours of a row in two planes, or 8 in one plane where that fills more multiprocessors. The lane
// steps along a row of the window by four taps. One read of four pixels, and one of four broadcast taps for each plane,
// serve 128 multiply-adds, or 32. The row's last one to three taps have code of their own, which skips the padding.
//
// A row has `Pixels` / 4 parts, which take groups of four neighbouring pixels in turn. Lanes then read different banks.
// Device memory: the tile's planes come from L2; 2 kd kh kw flops a voxel.
#pragma once

#include <type_traits>

#include "core/border.h"
#include "core/cuda/async_copy.cuh"
#include "core/cuda/device.cuh"
#include "kernels/direct3d/window/params.h"

namespace torch_conv::direct3d {

template <int N>
using Index = std::integral_constant<int, N>;

template <typename A>
__device__ __forceinline__ Pack<4, A> four(const A* from) {
  return *reinterpret_cast<const Pack<4, A>*>(from);
}

// The first pixels and taps of a row of the window, for `Sums` planes of sums.
template <int Pixels, int Sums, typename A>
struct RowStart {
  Pack<4, A> pixel[Pixels / 4 + 1], tap[Sums];
  __device__ __forceinline__ void read(const A* from, int part, const A* const (&taps)[Sums]) {
    constexpr int kParts = Pixels / 4;
#pragma unroll
    for (int n = 0; n <= kParts; ++n) pixel[n] = four(from + n % kParts * part + n / kParts * 4);
#pragma unroll
    for (int o = 0; o < Sums; ++o) tap[o] = four(taps[o]);
  }
};

// Adds one row of the window to the sums of planes [Lo, Lo + Sums).
template <int Pixels, int Lo, int Sums, int Planes, typename A>
__device__ __forceinline__ void add_row(const RowStart<Pixels, Sums, A>& start, const A* from, int part,
                                        const A* const (&row_taps)[Sums], int kw, A (&sum)[Planes][Pixels]) {
  constexpr int kParts = Pixels / 4, kSteps = 4;
  Pack<4, A> pixel[kParts + 1 + kSteps], tap[2][Sums];  // taps of this step and of the next
  const A* taps[Sums];
#pragma unroll
  for (int n = 0; n <= kParts; ++n) pixel[n] = start.pixel[n];
#pragma unroll
  for (int o = 0; o < Sums; ++o) tap[0][o] = start.tap[o], taps[o] = row_taps[o];
  int taps_left = kw;
  // Adds the four taps of step u; returns false at the end of the row.
  const auto step = [&](auto step_index) {
    constexpr int u = decltype(step_index)::value, kAhead = u + kParts + 1;
    const auto add = [&](int t) {
#pragma unroll
      for (int o = 0; o < Sums; ++o)
#pragma unroll
        for (int q = 0; q < Pixels; ++q)
          sum[Lo + o][q] = fma(tap[u % 2][o].v[t], pixel[u + (q + t) / 4].v[(q + t) % 4], sum[Lo + o][q]);
    };
    if (taps_left < 4) {
      if (taps_left > 0) add(0);
      if (taps_left > 1) add(1);
      if (taps_left > 2) add(2);
      return false;
    }
    // Loads pixels and taps of the next step. The values after the last step are not used.
    pixel[kAhead] = four(from + kAhead % kParts * part + kAhead / kParts * 4);
#pragma unroll
    for (int o = 0; o < Sums; ++o) tap[(u + 1) % 2][o] = four(taps[o] + 4 * (u + 1));
    add(0), add(1), add(2), add(3);
    taps_left -= 4;
    return true;
  };
  while (step(Index<0>{}) && step(Index<1>{}) && step(Index<2>{}) && step(Index<3>{})) {
    from += kSteps / kParts * 4;
#pragma unroll
    for (int o = 0; o < Sums; ++o) taps[o] += 4 * kSteps;
#pragma unroll
    for (int n = 0; n <= kParts; ++n) pixel[n] = pixel[n + kSteps];
  }
}

// Adds one plane of the input to the sums of planes [Lo, Lo + Sums); taps[o] is the window's plane for sum Lo + o.
template <int Pixels, int Lo, int Sums, int Planes, typename A>
__device__ __forceinline__ void add_plane(const A* from, const A* (&taps)[Sums], const WindowArgs& a,
                                          A (&sum)[Planes][Pixels]) {
  const int kh = int(a.p.kh), kw = int(a.p.kw);
  const auto down = [&] {
    from += a.pitch;
#pragma unroll
    for (int o = 0; o < Sums; ++o) taps[o] += a.tap_pitch;
  };
  using Start = RowStart<Pixels, Sums, A>;
  if constexpr (Planes > 1 || sizeof(A) == 8) {
#pragma unroll 1
    for (int i = 0; i < kh; ++i) {
      Start start;
      start.read(from, a.part, taps);
      add_row<Pixels, Lo>(start, from, a.part, taps, kw, sum);
      down();
    }
  } else {
    // Few warps are resident: the lane reads the next row's first pixels a row ahead. Pixels of float64 would not fit
    // into the registers. Behind the last row another warp writes the next plane: the lane reads the last row again and
    // does not use it. A branch around the read costs 19 % (15^3 on 8x128x128, one NVIDIA H200: 51.6 -> 61.3 us).
    const auto row = [&](const Start& start, Start& next, bool more) {
      const A* const at = from;
      const A* const at_taps[Sums] = {taps[0]};
      down();
      const A* const next_taps[Sums] = {more ? taps[0] : at_taps[0]};
      next.read(more ? from : at, a.part, next_taps);
      add_row<Pixels, Lo>(start, at, a.part, at_taps, kw, sum);
    };
    Start even, odd;
    even.read(from, a.part, taps);
#pragma unroll 1
    for (int i = 0; i < kh; i += 2) {
      row(even, odd, i + 1 < kh);
      if (i + 1 == kh) break;
      row(odd, even, i + 2 < kh);
    }
  }
}

// Calls f with a value of the output's element type. One switch serves a plane of the tile. core's with_type excludes
// other dtypes, and ptxas would make other code.
template <typename F>
__device__ __forceinline__ void with_output_type(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::f32: return f(float{});
    case Dtype::f16: return f(half_t{});
    case Dtype::bf16: return f(bhalf_t{});
    case Dtype::f64: return f(double{});
    case Dtype::u8: return f(uint8_t{});
    case Dtype::i16: return f(int16_t{});
    case Dtype::u16: return f(uint16_t{});
  }
}

template <typename T, bool Large>
__global__ void __launch_bounds__(window_tile(Large, sizeof(T)).threads(), window_tile(Large, sizeof(T)).resident)
    direct3d_window(const __grid_constant__ WindowArgs a, const __grid_constant__ ParamTaps param_taps) {
  using A = acc_t<T>;
  constexpr WindowTile config = window_tile(Large, sizeof(T));
  constexpr int kLoaders = config.loaders, Pixels = config.pixels, Planes = config.planes, kParts = Pixels / 4;
  const Direct& p = a.p;
  const int kh = int(p.kh), kw = int(p.kw), kd = int(p.kd);
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  const int stage = a.pitch * a.rows, tap_stage = window_tap_stage(a.tap_pitch, kh);
  A* stages = reinterpret_cast<A*>(shared_bytes);
  A* tap_stages = stages + 2 * stage;

  unsigned b = blockIdx.x;
  const int width = 1 << a.width_log2, lanes = width / Pixels;  // of a row
  const int warp_rows = 32 / lanes, height = kWindowWarps * warp_rows;
  const int x0 = int(b % unsigned(a.tiles_x)) * width;
  b /= unsigned(a.tiles_x);
  const int y0 = int(b % unsigned(a.tiles_y)) * height;
  b /= unsigned(a.tiles_y);
  const unsigned tiles_z = unsigned(ceil_div(p.out.d, Planes));
  const int z0 = int(b % tiles_z) * Planes, count = min(Planes, int(p.out.d) - z0);
  b /= tiles_z;
  const int co = int(b % unsigned(p.out.c)), n = int(b / unsigned(p.out.c));
  const int bx = x0 - int(p.place.pad_x), by = y0 - int(p.place.pad_y), bz = z0 - int(p.place.pad_z);
  // Only inputs of outputs inside the plane are read: other inputs may be far outside.
  const int columns = min(width, int(p.out.w) - x0) + kw - 1, rows = min(height, int(p.out.h) - y0) + kh - 1;
  const int depth = kd + count - 1;  // planes of the input
  const A* all_taps = param_taps.first<A>() + n * p.taps.stride_n + co * p.taps.stride_c;
  const T* group =
      static_cast<const T*>(p.in.data) + n * p.in.stride_n + co / a.out_per_group * a.in_per_group * p.in.stride_c;
  const A outside = A(p.place.value);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  // The border map, computed once: offsets of the tile's rows in shared memory, and of a loader lane's first columns
  // (lane, lane + 32, ...) in registers; -1 outside.
  constexpr int kHeld = 6, kBatch = 3;
  const auto position = [&](int i) { return i / 4 % kParts * a.part + i / 4 / kParts * 4 + i % 4; };
  int64_t* row_at = reinterpret_cast<int64_t*>(tap_stages + (Planes + 1) * tap_stage);
  for (int r = threadIdx.x; r < rows; r += blockDim.x) {
    const int m = map_index(by + r, int(p.in.h), p.place.border);
    row_at[r] = m < 0 ? -1 : m * p.in.stride_h;
  }
  int column_at[kHeld];
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int i = lane + 32 * k, m = i < columns ? map_index(bx + i, int(p.in.w), p.place.border) : -1;
    column_at[k] = m < 0 ? -1 : m * int(p.in.stride_w);
  }
  const int first_position = position(lane);
  __syncthreads();
  // Asynchronous copies load elements that need no conversion, if elements outside are +0 or in the plane. Asynchronous
  // copies also load the taps, unless the taps are kernel parameters.
  const bool copied =
      std::is_same_v<T, A> && (p.place.border != Border::constant || (outside == A(0) && !signbit(outside)));
  const auto load = [&](int s, int ci, int l, int loader, int loaders_now) {
    const int mz = map_index(bz + l, int(p.in.d), p.place.border);
    A* tile = stages + s % 2 * stage;
    const T* plane = group + ci * p.in.stride_c + (mz < 0 ? 0 : mz) * p.in.stride_d;
    if (l < kd) {
      A* taps = tap_stages + s % (Planes + 1) * tap_stage;
      const A* window = all_taps + ci * p.taps.stride_ci + int64_t(l) * kh * kw;
      for (int e = loader * 32 + lane; e < kh * kw; e += 32 * loaders_now) {
        const unsigned i = unsigned(e) / unsigned(kw);
        A* to = taps + (e + i * unsigned(a.tap_pitch - kw));
        if (param_taps.device) async_copy<sizeof(A)>(to, window + e);
        else *to = window[e];
      }
    }
    if (copied) {
      A* const to = tile + first_position;
#pragma unroll 1
      for (int r = loader; r < rows; r += loaders_now) {
        const int64_t row = row_at[r];
        const char* from = reinterpret_cast<const char*>(plane + (row < 0 ? 0 : row));
        A* const to_row = to + r * a.pitch;
        const bool inside = mz >= 0 && row >= 0;
#pragma unroll
        for (int k = 0; k < kHeld; ++k) {
          if (32 * k >= columns) break;
          async_copy<sizeof(A)>(to_row + 32 / kParts * k, from + unsigned(max(column_at[k], 0)) * unsigned(sizeof(A)),
                                inside && column_at[k] >= 0 ? int(sizeof(A)) : 0);
        }
      }
    } else {
      for (int r = loader; r < rows; r += kBatch * loaders_now) {
        T pixel[kBatch][kHeld];
        int64_t row[kBatch];
#pragma unroll
        for (int u = 0; u < kBatch; ++u) {
          row[u] = mz < 0 ? -1 : row_at[min(r + u * loaders_now, rows - 1)];
          const T* from = plane + (row[u] < 0 ? 0 : row[u]);
#pragma unroll
          for (int k = 0; k < kHeld; ++k)
            if (32 * k < columns) pixel[u][k] = from[max(column_at[k], 0)];
        }
#pragma unroll
        for (int u = 0; u < kBatch; ++u) {
          if (r + u * loaders_now >= rows) break;
          A* to = tile + (r + u * loaders_now) * a.pitch + first_position;
#pragma unroll
          for (int k = 0; k < kHeld; ++k)
            if (lane + 32 * k < columns)
              to[32 / kParts * k] = row[u] < 0 || column_at[k] < 0 ? outside : to_acc<A>(pixel[u][k]);
        }
      }
    }
    if (columns > 32 * kHeld)
      for (int r = loader; r < rows; r += loaders_now)
        for (int i = lane + 32 * kHeld; i < columns; i += 32) {
          const int mx = map_index(bx + i, int(p.in.w), p.place.border);
          tile[r * a.pitch + position(i)] =
              mz < 0 || row_at[r] < 0 || mx < 0 ? outside : to_acc<A>(plane[row_at[r] + mx * p.in.stride_w]);
        }
  };

  A sum[Planes][Pixels] = {};
  const int row_in = warp * warp_rows + lane / lanes, first = row_in * a.pitch + lane % lanes * 4;
  const int planes = a.in_per_group * depth;
  load(0, 0, 0, warp, kWindowWarps + kLoaders);
  async_wait_all();
  __syncthreads();
  for (int s = 0, l = 0, ci = 0; s < planes; ++s) {
    const int now = l;
    if (++l == depth) l = 0, ++ci;
    if (s + 1 < planes && (kLoaders == 0 || warp >= kWindowWarps))
      load(s + 1, ci, l, kLoaders == 0 ? warp : warp - kWindowWarps, kLoaders == 0 ? kWindowWarps : kLoaders);
    if (warp < kWindowWarps) {
      const A* from = stages + s % 2 * stage + first;
      const A* tap_now = tap_stages + s % (Planes + 1) * tap_stage;
      if constexpr (Planes == 1) {
        const A* taps[1] = {tap_now};
        add_plane<Pixels, 0>(from, taps, a, sum);
      } else {
        const A* tap_before = tap_stages + (s + Planes) % (Planes + 1) * tap_stage;
        if (now < kd && now > 0 && count > 1) {
          const A* taps[2] = {tap_now, tap_before};
          add_plane<Pixels, 0>(from, taps, a, sum);
        } else if (now < kd) {
          const A* taps[1] = {tap_now};
          add_plane<Pixels, 0>(from, taps, a, sum);
        } else {
          const A* taps[1] = {tap_before};
          add_plane<Pixels, 1>(from, taps, a, sum);
        }
      }
    }
    async_wait_all();
    __syncthreads();
  }
  if (warp >= kWindowWarps) return;

  // Sums pass through shared memory, so that a warp stores neighbours.
  const A bias = p.bias ? static_cast<const A*>(p.bias)[co] : A(0);
  A* warp_rows_at = stages + warp * warp_rows * a.pitch;
#pragma unroll
  for (int o = 0; o < Planes; ++o) {
    if (o >= count) break;
    __syncwarp();
#pragma unroll
    for (int c = 0; c < kParts; ++c) {
      Pack<4, A> to;
#pragma unroll
      for (int q = 0; q < 4; ++q) to.v[q] = sum[o][4 * c + q];
      *reinterpret_cast<Pack<4, A>*>(warp_rows_at + lane / lanes * a.pitch + c * a.part + lane % lanes * 4) = to;
    }
    __syncwarp();
    const bool fits_z = bz + o >= 0 && bz + o + kd <= p.in.d;
    with_output_type(p.out.dtype, [&](auto zero_of) {
      using O = decltype(zero_of);
      O* to = static_cast<O*>(p.out.data) + n * p.out.stride_n + co * p.out.stride_c + (z0 + o) * p.out.stride_d +
              (y0 + warp * warp_rows) * p.out.stride_h + (x0 + lane) * p.out.stride_w;
      const int64_t right = 32 * p.out.stride_w, down = p.out.stride_h;
#pragma unroll 1
      for (int r = 0; r < warp_rows; ++r, to += down) {
        const int y = y0 + warp * warp_rows + r;
        if (y >= p.out.h) break;
        const bool fits_y = fits_z && y >= p.place.pad_y && y - p.place.pad_y + kh <= p.in.h;
        const A* from = warp_rows_at + r * a.pitch + first_position;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const int x = x0 + lane + 32 * k;
          if (32 * k >= width || x >= p.out.w) break;
          const bool fits = fits_y && x >= p.place.pad_x && x - p.place.pad_x + kw <= p.in.w;
          const A value = from[32 / kParts * k];
          const bool zero = p.place.border == Border::zero_output && !fits;
          to[k * right] = from_acc<O>(zero ? A(0) : p.bias ? value + bias : value);
        }
      }
    });
  }
}

}  // namespace torch_conv::direct3d
