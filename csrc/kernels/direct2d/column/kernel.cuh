// COLUMN: windows of width 1 and any height at stride and dilation 1, rows dense in memory. COLUMN also computes the
// depth pass of a volume: planes are rows of h * w columns.
//
// clang-format off
//    lane  0      1      ...  31
//        +--------------------------+ -        A thread owns N neighbouring columns (16 bytes of float32) and 8 output
//        |          halo            | | kh     rows: kh + 7 row loads for 8 rows of sums.
//        |  +--------------------+  | | - 1
//        |  | warp 0: 8 rows     |  |          The window's rows pass through registers:
//        |  | warp 1             |  |            window[8] = the rows that the 8 sums see with tap i
//        |  | ...                |  |            next[8]   = the 8 rows behind them, still loading
//        |  +--------------------+  |          After a tap, the first of the next rows replaces the window's first row,
//        |          halo            |          and the thread issues the load of the row 16 rows below. The warps of a
//        +--------------------------+          block are one above the other, so that halos come from L1.
// clang-format on
//
// The lanes of a warp map 8 rows by the border at once. A row outside is read at row 0; the border's value replaces it.
// Tiles follow each other in raster order within strips of kStripTiles tiles: so halos stay in L2 where one row of a
// wide image would fill it.
// Device memory per output pixel: 1 read (halos come from L1 and L2), 1 write; 2 kh flops.
#pragma once

#include <type_traits>

#include "core/cuda/device.cuh"
#include "kernels/direct2d/column/params.h"

namespace torch_conv::direct2d {

// Rounds one thread's 8 rows of sums to Out and stores them.
template <typename Out, int N, typename A>
__device__ __forceinline__ void store_column(const Image& out, int64_t offset, int x, int rows,
                                             const A (&sum)[kColumnRows][N]) {
  Out* to = static_cast<Out*>(out.data) + offset;
  const bool stored = x < out.w;
#pragma unroll
  for (int v = 0; v < kColumnRows; ++v, to += out.stride_h) {
    Pack<N, Out> pack;
#pragma unroll
    for (int e = 0; e < N; ++e) pack.v[e] = from_acc<Out>(sum[v][e]);
    if constexpr (sizeof(pack) == 8 || sizeof(pack) == 16) {
      store_pack_if(stored && v < rows, to, pack);
    } else if (stored && v < rows) {
      if constexpr (sizeof(pack) == 4 && N > 1) {
        *reinterpret_cast<Pack<N, Out>*>(to) = pack;
      } else {
#pragma unroll
        for (int e = 0; e < N; ++e) to[e] = pack.v[e];
      }
    }
  }
}

// N: columns a thread, 16 bytes of float32, or 1. kAny: the output's dtype is chosen at run time. KH: a compiled
// height, or 0. With a compiled height the thread loads all rows before it uses the first.
template <typename T, int N, bool kAny, int KH>
__global__ void __launch_bounds__(32 * kColumnWarps, 2)
    direct2d_column(const __grid_constant__ ColumnArgs a, const __grid_constant__ ParamTaps param_taps) {
  using A = acc_t<T>;
  constexpr int R = kColumnRows;
  const int lane = threadIdx.x % 32, warp = __shfl_sync(~0u, int(threadIdx.x) / 32, 0), warps = blockDim.x / 32;

  const unsigned tiles = a.tiles_x * a.tiles_y;
  unsigned tile = blockIdx.x, n = 0, co = 0, ci = 0;
  if (gridDim.x != tiles) {
    co = tile / tiles, tile -= co * tiles;
    n = co / a.channels_out, co -= n * a.channels_out;
    ci = a.multiplier == 1 ? co : co / a.multiplier;
  }
  const unsigned strip = tile / (kStripTiles * a.tiles_y), first_x = strip * kStripTiles;
  tile -= first_x * a.tiles_y;
  unsigned row_of_tiles = tile / kStripTiles, tile_x = tile % kStripTiles;
  if (first_x + kStripTiles > a.tiles_x)
    row_of_tiles = tile / (a.tiles_x - first_x), tile_x = tile % (a.tiles_x - first_x);
  const int x = int(((first_x + tile_x) * 32 + lane) * N), y0 = (int(row_of_tiles) * warps + warp) * R;
  const int rows = min(R, int(a.out.h) - y0);
  if (rows <= 0) return;
  // Lanes beyond the last column read the last column.
  const T* from = static_cast<const T*>(a.in) + n * a.in_n + ci * a.in_c + min(x, int(a.out.w) - N);
  const int kh = KH ? KH : a.kh, top = y0 - a.pad, last = rows + kh - 2;  // the last row that is needed

  auto load = [&](Pack<N, T>& raw, int m) {
    const T* row =
        reinterpret_cast<const T*>(reinterpret_cast<const char*>(from) + uint64_t(unsigned(m)) * a.row_bytes);
    if constexpr (N == 1) raw.v[0] = *row;
    else raw = load_pack<N>(row);
  };
  const A outside = A(a.value);
  auto row_of = [&](A(&row)[N], const Pack<N, T>& raw, bool inside) {
#pragma unroll
    for (int e = 0; e < N; ++e) row[e] = inside ? to_acc<A>(raw.v[e]) : outside;
  };
  const A* taps = param_taps.first<A>() + n * a.taps_n + co * a.taps_c;
  const A bias = a.bias ? static_cast<const A*>(a.bias)[co] : A(0);

  A sum[R][N] = {};
  if constexpr (KH > 0) {
    // Lane r maps row r under the window of the first output row.
    const int at = map_index(top + min(lane, last), a.h, a.border);
    const unsigned mask = __ballot_sync(~0u, at < 0);
    Pack<N, T> raw[KH + R - 1];
#pragma unroll
    for (int r = 0; r < KH + R - 1; ++r) load(raw[r], __shfl_sync(~0u, max(at, 0), r));
    A tap[KH];
#pragma unroll
    for (int i = 0; i < KH; ++i) tap[i] = taps[i];
    auto add = [&](auto all_inside) {
#pragma unroll
      for (int r = 0; r < KH + R - 1; ++r) {
        A row[N];
        row_of(row, raw[r], all_inside || !(mask >> r & 1));
#pragma unroll
        for (int v = 0; v < R; ++v) {
          if (r < v || r - v >= KH) continue;
#pragma unroll
          for (int e = 0; e < N; ++e) sum[v][e] = fma(tap[r - v], row[e], sum[v][e]);
        }
      }
    };
    if (mask == 0) add(std::true_type{});
    else add(std::false_type{});
  } else {
    // Rows i .. i + 7 as the border maps them, one a lane.
    auto rows_at = [&](int i) { return map_index(top + min(i + lane % R, last), a.h, a.border); };
    Pack<N, T> first[R], next[R] = {};
    const int at = rows_at(0);
    int at_next = rows_at(R);
#pragma unroll
    for (int u = 0; u < R; ++u) load(first[u], __shfl_sync(~0u, max(at, 0), u));
#pragma unroll
    for (int u = 0; u < R; ++u)
      if (R + u <= last) load(next[u], __shfl_sync(~0u, max(at_next, 0), u));
    unsigned mask = __ballot_sync(~0u, at < 0);  // bit u: row u of a block is outside
    A window[R][N];
#pragma unroll
    for (int v = 0; v < R; ++v) row_of(window[v], first[v], !(mask >> v & 1));
#pragma unroll 1
    for (int i = 0; i < kh; i += R) {
      mask = __ballot_sync(~0u, at_next < 0);
      if (i + 2 * R <= last) at_next = rows_at(i + 2 * R);
      A tap[R];
#pragma unroll
      for (int u = 0; u < R; ++u) tap[u] = taps[min(i + u, kh - 1)];
#pragma unroll
      for (int u = 0; u < R; ++u) {
        if (i + u >= kh) break;
#pragma unroll
        for (int v = 0; v < R; ++v)
#pragma unroll
          for (int e = 0; e < N; ++e) sum[v][e] = fma(tap[u], window[(u + v) % R][e], sum[v][e]);
        row_of(window[u], next[u], !(mask >> u & 1));
        if (i + 2 * R + u <= last) load(next[u], __shfl_sync(~0u, max(at_next, 0), u));
      }
    }
  }

#pragma unroll
  for (int v = 0; v < R; ++v) {
    const int y = y0 + v;
    const bool fits = y >= a.pad && y - a.pad + kh <= a.h;
#pragma unroll
    for (int e = 0; e < N; ++e) sum[v][e] = a.border == Border::zero_output && !fits ? A(0) : sum[v][e] + bias;
  }
  const int64_t offset = n * a.out.stride_n + co * a.out.stride_c + int64_t(y0) * a.out.stride_h + x;
  if constexpr (!kAny) {
    store_column<T>(a.out, offset, x, rows, sum);
  } else {
    with_type(a.out.dtype, [&](auto zero) { store_column<decltype(zero)>(a.out, offset, x, rows, sum); });
  }
}

}  // namespace torch_conv::direct2d
