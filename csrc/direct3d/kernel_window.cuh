// WINDOW: any window at stride and dilation 1, any layout and pair of dtypes.
//
//   two planes in shared memory              A block computes a tile of one output plane. Four warps add the window's
//   +--------------------------+  -          planes one after the other; the loader warps bring the next plane and its
//   | halo                     |  |          taps meanwhile, border map and conversion included.
//   |   +------------------+   |  | height
//   |   | warp 0 .. warp 3 |   |  | + kh     A lane owns 4 neighbours of `Groups` x `Rows` rows of sums. A row of
//   pixels |   +------------------+   |  | - 1      is read once, four at a time, and added to each of the rows of sums
//   that |                          |  |          see it, with the taps of that row (a broadcast read of four, used for
//   all
//   +--------------------------+  -          groups). The rows that see it are known at compile time: no branches
//   | taps, rows padded to 4   |             between the multiply-adds.
//   +--------------------------+
//                                            2 x 4 rows; small volumes take 1 x 2, or multiprocessors would idle.
//
// Device memory: the tile's kd planes come from L2; 2 kd kh kw flops a voxel.
#pragma once

#include "core/device.cuh"
#include "core/store.cuh"
#include "direct3d/plan.h"

namespace torch_conv::direct3d {

struct WindowArgs {
  Direct p;
  int pitch, rows, tap_pitch;  // of a plane and of a row of taps, in elements
  int tiles_x, tiles_y;
  int width_log2;  // of the tile
  int in_per_group, out_per_group;
};

template <typename A>
struct alignas(4 * sizeof(A)) Four {
  A v[4];
};

template <typename A>
__device__ __forceinline__ Four<A> four(const A* from) {
  return *reinterpret_cast<const Four<A>*>(from);
}

// Adds one row of pixels of each group to the sums of output rows [Lo, Hi), which see it. `taps` is the row of taps of
// output row 0; row o takes the one o rows before.
template <int Rows, int Groups, int Lo, int Hi, typename A>
__device__ __forceinline__ void add_pixels(const A* from, const A* taps, int kw, int pitch, int tap_pitch,
                                           A (&sum)[Groups][Rows][4]) {
  struct Quads {
    Four<A> left[Groups], right[Groups], tap[Hi - Lo];
  };
  const auto read = [&](Quads& x, int j) {
#pragma unroll
    for (int o = Lo; o < Hi; ++o) x.tap[o - Lo] = four(taps - o * tap_pitch + j);
#pragma unroll
    for (int g = 0; g < Groups; ++g) x.right[g] = four(from + g * Rows * pitch + j + 4);
  };
  const auto read_left = [&](Quads& x, int j) {
#pragma unroll
    for (int g = 0; g < Groups; ++g) x.left[g] = four(from + g * Rows * pitch + j);
  };
  const auto add = [&](const Quads& x, int t) {
#pragma unroll
    for (int o = Lo; o < Hi; ++o)
#pragma unroll
      for (int g = 0; g < Groups; ++g)
#pragma unroll
        for (int q = 0; q < 4; ++q)
          sum[g][o][q] =
              fma(x.tap[o - Lo].v[t], q + t < 4 ? x.left[g].v[(q + t) % 4] : x.right[g].v[(q + t) % 4], sum[g][o][q]);
  };
  // The last one to three taps: the padding of a row of taps is never multiplied. They are read first, so that they are
  // there at the end (one group: a multiprocessor has no other warps to turn to).
  const int rest = kw % 4, whole = kw - rest;
  Quads x, last;
  read_left(x, 0);
  if (Groups == 1 && rest > 0) read_left(last, whole), read(last, whole);
  int j = 0;
#pragma unroll(Groups == 1 ? 3 : 2)
  for (; j < whole; j += 4) {
    read(x, j);
    add(x, 0), add(x, 1), add(x, 2), add(x, 3);
#pragma unroll
    for (int g = 0; g < Groups; ++g) x.left[g] = x.right[g];
  }
  if (rest == 0) return;
  if (Groups > 1) read(x, whole), last = x;
  add(last, 0);
  if (rest > 1) add(last, 1);
  if (rest > 2) add(last, 2);
}

// All rows of pixels that the sums see, for windows of at least `Rows` rows: the first and last Rows - 1 rows of pixels
// are seen by some of the rows of sums only.
template <int Rows, int Groups, int Edge, typename A>
__device__ __forceinline__ void add_first(const A* from, const A* taps, int kw, int pitch, int tap_pitch,
                                          A (&sum)[Groups][Rows][4]) {
  if constexpr (Edge < Rows - 1) {
    add_pixels<Rows, Groups, 0, Edge + 1>(from + Edge * pitch, taps + Edge * tap_pitch, kw, pitch, tap_pitch, sum);
    add_first<Rows, Groups, Edge + 1>(from, taps, kw, pitch, tap_pitch, sum);
  }
}

template <int Rows, int Groups, int Edge, typename A>
__device__ __forceinline__ void add_last(const A* from, const A* taps, int kw, int pitch, int tap_pitch,
                                         A (&sum)[Groups][Rows][4]) {
  if constexpr (Edge < Rows) {
    add_pixels<Rows, Groups, Edge, Rows>(from + (Edge - 1) * pitch, taps + (Edge - 1) * tap_pitch, kw, pitch, tap_pitch,
                                         sum);
    add_last<Rows, Groups, Edge + 1>(from, taps, kw, pitch, tap_pitch, sum);
  }
}

template <int Rows, int Groups, typename A>
__device__ __forceinline__ void add_plane(const A* from, const A* taps, int kh, int kw, int pitch, int tap_pitch,
                                          A (&sum)[Groups][Rows][4]) {
  if (kh >= Rows) {
    add_first<Rows, Groups, 0>(from, taps, kw, pitch, tap_pitch, sum);
    for (int r = Rows - 1; r < kh; ++r)
      add_pixels<Rows, Groups, 0, Rows>(from + r * pitch, taps + r * tap_pitch, kw, pitch, tap_pitch, sum);
    add_last<Rows, Groups, 1>(from + kh * pitch, taps + kh * tap_pitch, kw, pitch, tap_pitch, sum);
    return;
  }
  // Flat windows: one tap after the other.
  for (int i = 0; i < kh; ++i)
    for (int j = 0; j < kw; ++j) {
      const A tap = taps[i * tap_pitch + j];
#pragma unroll
      for (int g = 0; g < Groups; ++g)
#pragma unroll
        for (int o = 0; o < Rows; ++o)
#pragma unroll
          for (int q = 0; q < 4; ++q) sum[g][o][q] = fma(tap, from[(g * Rows + o + i) * pitch + q + j], sum[g][o][q]);
    }
}

template <typename T, int Rows, int Groups>
__global__ void __launch_bounds__(32 * (kWindowWarps + window_loaders(Rows)), Rows == 2 ? 1 : 2)
    direct3d_window(const __grid_constant__ WindowArgs a, const __grid_constant__ ParamTaps param_taps) {
  using A = acc_t<T>;
  constexpr int loaders = window_loaders(Rows);
  const Direct& p = a.p;
  const int kh = int(p.kh), kw = int(p.kw), kd = int(p.kd), stage = a.pitch * a.rows + a.tap_pitch * kh;
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  A* stages = reinterpret_cast<A*>(shared_bytes);

  unsigned b = blockIdx.x;
  const int width = 1 << a.width_log2, lanes = width / 4;  // of a row
  const int height = kWindowWarps * Rows * Groups * (32 / lanes);
  const int x0 = int(b % unsigned(a.tiles_x)) * width;
  b /= unsigned(a.tiles_x);
  const int y0 = int(b % unsigned(a.tiles_y)) * height;
  b /= unsigned(a.tiles_y);
  const int z = int(b % unsigned(p.out.d));
  b /= unsigned(p.out.d);
  const int co = int(b % unsigned(p.out.c)), n = int(b / unsigned(p.out.c));
  const int bx = x0 - int(p.place.pad_x), by = y0 - int(p.place.pad_y), bz = z - int(p.place.pad_z);
  // What the last outputs of the plane do not need is not read: it may lie far outside.
  const int columns = min(width, int(p.out.w) - x0) + kw - 1, rows = min(height, int(p.out.h) - y0) + kh - 1;
  const A* all_taps = param_taps.first<A>() + n * p.taps.stride_n + co * p.taps.stride_c;
  const T* group =
      static_cast<const T*>(p.in.data) + n * p.in.stride_n + co / a.out_per_group * a.in_per_group * p.in.stride_c;
  const A outside = A(p.place.value);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  // The border map is asked once: offsets of the tile's rows in shared memory, of a loader lane's first columns (lane,
  // lane + 32, ...) in registers; -1 outside.
  constexpr int held = 6, batch = Rows == 2 ? 3 : 5;
  int64_t* row_at = reinterpret_cast<int64_t*>(stages + 2 * stage + 16);
  for (int r = threadIdx.x; r < rows; r += blockDim.x) {
    const int m = map_index(by + r, int(p.in.h), p.place.border);
    row_at[r] = m < 0 ? -1 : m * p.in.stride_h;
  }
  int column_at[held];
#pragma unroll
  for (int k = 0; k < held; ++k) {
    const int i = lane + 32 * k, m = i < columns ? map_index(bx + i, int(p.in.w), p.place.border) : -1;
    column_at[k] = m < 0 ? -1 : m * int(p.in.stride_w);
  }
  __syncthreads();
  const auto load = [&](int s, int loader, int count) {
    const int ci = s / kd, l = s % kd, mz = map_index(bz + l, int(p.in.d), p.place.border);
    A* tile = stages + s % 2 * stage;
    A* taps = tile + a.pitch * a.rows;
    const A* window = all_taps + ci * p.taps.stride_ci + int64_t(l) * kh * kw;
    const T* plane = group + ci * p.in.stride_c + (mz < 0 ? 0 : mz) * p.in.stride_d;
    for (int r = loader; r < rows; r += batch * count) {
      T pixel[batch][held];
      int64_t row[batch];
#pragma unroll
      for (int u = 0; u < batch; ++u) {
        row[u] = mz < 0 ? -1 : row_at[min(r + u * count, rows - 1)];
        const T* from = plane + (row[u] < 0 ? 0 : row[u]);
#pragma unroll
        for (int k = 0; k < held; ++k)
          if (32 * k < columns) pixel[u][k] = from[max(column_at[k], 0)];
      }
#pragma unroll
      for (int u = 0; u < batch; ++u) {
        if (r + u * count >= rows) break;
        A* to = tile + (r + u * count) * a.pitch + lane;
#pragma unroll
        for (int k = 0; k < held; ++k)
          if (lane + 32 * k < columns) to[32 * k] = row[u] < 0 || column_at[k] < 0 ? outside : to_acc<A>(pixel[u][k]);
      }
    }
#pragma unroll 4
    for (int i = loader; i < kh; i += count)
      for (int j = lane; j < kw; j += 32) taps[i * a.tap_pitch + j] = window[i * kw + j];
    if (columns <= 32 * held) return;
    for (int r = loader; r < rows; r += count)
      for (int i = lane + 32 * held; i < columns; i += 32) {
        const int mx = map_index(bx + i, int(p.in.w), p.place.border);
        tile[r * a.pitch + i] =
            mz < 0 || row_at[r] < 0 || mx < 0 ? outside : to_acc<A>(plane[row_at[r] + mx * p.in.stride_w]);
      }
  };

  A sum[Groups][Rows][4] = {};
  const int first_row = (warp * (32 / lanes) + lane / lanes) * Rows * Groups, first_column = 4 * (lane % lanes);
  const int planes = a.in_per_group * kd;
  load(0, warp, kWindowWarps + loaders);
  __syncthreads();
  for (int s = 0; s < planes; ++s) {
    if (warp >= kWindowWarps) {
      if (s + 1 < planes) load(s + 1, warp - kWindowWarps, loaders);
    } else {
      const A* tile = stages + s % 2 * stage;
      add_plane<Rows, Groups>(tile + first_row * a.pitch + first_column, tile + a.pitch * a.rows, kh, kw, a.pitch,
                              a.tap_pitch, sum);
    }
    __syncthreads();
  }
  if (warp >= kWindowWarps) return;

  const A bias = p.bias ? static_cast<const A*>(p.bias)[co] : A(0);
  const bool fits_z = bz >= 0 && bz + kd <= p.in.d;
#pragma unroll
  for (int o = 0; o < Rows * Groups; ++o) {
    const int y = y0 + first_row + o;
    if (y >= p.out.h) break;
    const int64_t offset = n * p.out.stride_n + co * p.out.stride_c + z * p.out.stride_d + y * p.out.stride_h;
    const bool fits_y = fits_z && y >= p.place.pad_y && y - p.place.pad_y + kh <= p.in.h;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int x = x0 + first_column + q;
      if (x >= p.out.w) break;
      const bool fits = fits_y && x >= p.place.pad_x && x - p.place.pad_x + kw <= p.in.w;
      const A value = sum[o / Rows][o % Rows][q];
      const bool zero = p.place.border == Border::zero_output && !fits;
      store_as(p.out, offset + x * p.out.stride_w, zero ? A(0) : p.bias ? value + bias : value);
    }
  }
}

}  // namespace torch_conv::direct3d
