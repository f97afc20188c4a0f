// WINDOW, the other half: where a block's tile lies, and how planes of the input and their taps come into shared
// memory.
#pragma once

#include <type_traits>

#include "core/async_copy.cuh"
#include "core/border.h"
#include "core/device.cuh"
#include "direct3d/params.h"

namespace torch_conv::direct3d {

// Where a block's tile lies: its first output, and the first input that it reads.
struct WindowPlace {
  int x, y, z, co, n;
  int bx, by, bz;
  int width, columns, rows;  // of the tile; of the input that outputs need: what lies behind may lie far outside
  int count, depth;          // planes of outputs, and of the input for one channel

  __device__ __forceinline__ WindowPlace(const WindowArgs& a, const WindowTile& tile) {
    const Direct& p = a.p;
    const MarchGrid::Place at = a.grid.at(blockIdx.x);
    width = 1 << a.width_log2;
    const int height = kWindowWarps * (32 / (width / tile.pixels));
    x = at.x * width, y = at.y * height, z = at.chunk * tile.planes, co = at.c, n = at.n;
    bx = x - int(p.place.pad_x), by = y - int(p.place.pad_y), bz = z - int(p.place.pad_z);
    count = min(tile.planes, int(p.out.d) - z), depth = int(p.kd) + count - 1;
    columns = min(width, int(p.out.w) - x) + int(p.kw) - 1, rows = min(height, int(p.out.h) - y) + int(p.kh) - 1;
  }
};

// Brings planes of the input and their taps into shared memory. The border map is asked once: offsets of the tile's
// rows stand in shared memory, of a lane's first columns (lane, lane + 32, ...) in registers; -1 outside.
template <typename T, int parts>
struct WindowLoader {
  using A = acc_t<T>;
  static constexpr int held = 6, batch = 3;

  const WindowArgs& a;
  const ParamTaps& param_taps;
  const WindowPlace& at;
  int64_t* const row_at;
  const A outside = A(a.p.place.value);
  const int lane = threadIdx.x % 32, first_place = place(lane);
  const A* const all_taps = param_taps.first<A>() + at.n * a.p.taps.stride_n + at.co * a.p.taps.stride_c;
  const T* const group = static_cast<const T*>(a.p.in.data) + at.n * a.p.in.stride_n +
                         at.co / a.out_per_group * a.in_per_group * a.p.in.stride_c;
  // Elements that need no conversion are copied asynchronously if what lies outside is +0 or in the plane; taps are,
  // too, unless they are parameters.
  const bool copied =
      std::is_same_v<T, A> && (a.p.place.border != Border::constant || (outside == A(0) && !signbit(outside)));
  int column_at[held];

  // Where column i of a row stands.
  __device__ __forceinline__ int place(int i) const { return i / 4 % parts * a.part + i / 4 / parts * 4 + i % 4; }

  // Barrier after.
  __device__ __forceinline__ void map_border() {
    for (int r = threadIdx.x; r < at.rows; r += blockDim.x) {
      const int m = map_index(at.by + r, int(a.p.in.h), a.p.place.border);
      row_at[r] = m < 0 ? -1 : m * a.p.in.stride_h;
    }
#pragma unroll
    for (int k = 0; k < held; ++k) {
      const int i = lane + 32 * k, m = i < at.columns ? map_index(at.bx + i, int(a.p.in.w), a.p.place.border) : -1;
      column_at[k] = m < 0 ? -1 : m * int(a.p.in.stride_w);
    }
  }

  // Plane l of input channel ci of the group into `tile`, by warp `loader` of `loaders`.
  __device__ __forceinline__ void load_plane(A* tile, int ci, int l, int loader, int loaders) const {
    const int mz = map_index(at.bz + l, int(a.p.in.d), a.p.place.border);
    const T* plane = group + ci * a.p.in.stride_c + (mz < 0 ? 0 : mz) * a.p.in.stride_d;
    if (copied) copy_rows(tile, plane, mz >= 0, loader, loaders);
    else convert_rows(tile, plane, mz >= 0, loader, loaders);
    if (at.columns > 32 * held)
      for (int r = loader; r < at.rows; r += loaders)
        for (int i = lane + 32 * held; i < at.columns; i += 32) {
          const int mx = map_index(at.bx + i, int(a.p.in.w), a.p.place.border);
          tile[r * a.pitch + place(i)] =
              mz < 0 || row_at[r] < 0 || mx < 0 ? outside : to_acc<A>(plane[row_at[r] + mx * a.p.in.stride_w]);
        }
  }

  // Taps of plane l of the window for input channel ci.
  __device__ __forceinline__ void load_taps(A* taps, int ci, int l, int loader, int loaders) const {
    const int kh = int(a.p.kh), kw = int(a.p.kw);
    const A* window = all_taps + ci * a.p.taps.stride_ci + int64_t(l) * kh * kw;
    for (int e = loader * 32 + lane; e < kh * kw; e += 32 * loaders) {
      const unsigned i = unsigned(e) / unsigned(kw);
      A* to = taps + (e + i * unsigned(a.tap_pitch - kw));
      if (param_taps.device) async_copy<sizeof(A)>(to, window + e);
      else *to = window[e];
    }
  }

 private:
  __device__ __forceinline__ void copy_rows(A* tile, const T* plane, bool plane_inside, int loader, int loaders) const {
    A* const to = tile + first_place;
#pragma unroll 1
    for (int r = loader; r < at.rows; r += loaders) {
      const int64_t row = row_at[r];
      const char* from = reinterpret_cast<const char*>(plane + (row < 0 ? 0 : row));
      A* const to_row = to + r * a.pitch;
      const bool inside = plane_inside && row >= 0;
#pragma unroll
      for (int k = 0; k < held; ++k) {
        if (32 * k >= at.columns) break;
        async_copy<sizeof(A)>(to_row + 32 / parts * k, from + unsigned(max(column_at[k], 0)) * unsigned(sizeof(A)),
                              inside && column_at[k] >= 0 ? int(sizeof(A)) : 0);
      }
    }
  }

  __device__ __forceinline__ void convert_rows(A* tile, const T* plane, bool plane_inside, int loader,
                                               int loaders) const {
    for (int r = loader; r < at.rows; r += batch * loaders) {
      T pixel[batch][held];
      int64_t row[batch];
#pragma unroll
      for (int u = 0; u < batch; ++u) {
        row[u] = !plane_inside ? -1 : row_at[min(r + u * loaders, at.rows - 1)];
        const T* from = plane + (row[u] < 0 ? 0 : row[u]);
#pragma unroll
        for (int k = 0; k < held; ++k)
          if (32 * k < at.columns) pixel[u][k] = from[max(column_at[k], 0)];
      }
#pragma unroll
      for (int u = 0; u < batch; ++u) {
        if (r + u * loaders >= at.rows) break;
        A* to = tile + (r + u * loaders) * a.pitch + first_place;
#pragma unroll
        for (int k = 0; k < held; ++k)
          if (lane + 32 * k < at.columns)
            to[32 / parts * k] = row[u] < 0 || column_at[k] < 0 ? outside : to_acc<A>(pixel[u][k]);
      }
    }
  }
};

}  // namespace torch_conv::direct3d
