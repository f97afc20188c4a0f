// REG: no shared memory; a warp keeps a strip of pixels in registers.
//
//   lane   0    1    2   ...  30   31        A warp reads 32 x 16 bytes of `rows` + K - 1 input rows: all loads are
//        +----+----+----+---+----+----+      issued before the first is used. Left and right neighbours come from the
//   row  | ///|    |    |   |    |/// |      next lanes by shuffle. Lanes 0 and 31 store no outputs: neighbouring warps
//        +----+----+----+---+----+----+      overlap by two lanes, and no lane loads a halo.
//
// Warps at an edge of the image load pixel by pixel through the border map.
// Device memory per output pixel: 1 read (the overlap comes from L1) and 1 write; 2 K^2 flops.
#pragma once

#include "kernels/direct2d/reg/params.h"
#include "kernels/direct2d/shared/outputs.cuh"

namespace torch_conv::direct2d {

template <typename T, int K>
constexpr int reg_min_blocks() {
  // Registers of a thread: 3x3 64; 5x5 96, so that a multiprocessor holds 20 warps (94 % of copy; 89 % with 16 warps);
  // 16-bit 72-80.
  return K == 5 ? 5 : sizeof(T) == 2 ? 6 : 8;
}

// The traits that clear_where_outside takes.
template <typename T, int K>
struct RegTraits {
  static constexpr PlaneWindow window{K, K, 1, 1, 1};
  static constexpr struct {
    int rows, columns;
    constexpr int width() const { return columns; }
    constexpr int covered() const { return columns; }
  } shape{reg_rows(sizeof(T), K), 30 * 16 / int(sizeof(T))};
  static __device__ __forceinline__ TilePosition position(const TileOrder& order) { return order.at(blockIdx.x); }
  static __device__ __forceinline__ int offset(int x, int) { return x; }
};

// Not inlined: only warps at an edge call the function, once per row and column.
static __device__ __noinline__ int map_at_edge(int i, int n, Border border) { return map_index(i, n, border); }

__device__ __forceinline__ int map_at_edge(int i, int n, Border border, const PeerRows& peers) {
  if (peers.holds(i, n)) return i;
  const int m = map_at_edge(i, n, border);
  return m < 0 ? PeerRows::kOutside : m;
}

template <typename T, int K, bool kBias>
__global__ void __launch_bounds__(32 * kRegWarps, reg_min_blocks<T, K>())
    direct2d_reg(const __grid_constant__ PlaneArgs a, const __grid_constant__ ParamTaps param_taps) {
  using A = acc_t<T>;
  constexpr int N = 16 / sizeof(T), R = K / 2, kRows = reg_rows(sizeof(T), K);
  const TilePosition at = RegTraits<T, K>::position(a.order);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first = int(at.x * 30 * N) - N;  // lane 0's first pixel
  const int x = first + lane * N, y0 = (at.y * kRegWarps + warp) * kRows;
  if (y0 >= a.planes.out_h) return;
  const T* plane = a.planes.in_plane<T>(at.n, at.c / a.multiplier);
  const int top = y0 + a.shift_y - R;

  // The value is equal in all lanes: lane 0's first and lane 31's last pixel decide.
  const bool inside = top >= 0 && top + kRows + K - 1 <= a.planes.in_h && first >= 0 && first + 32 * N <= a.planes.in_w;
  Pack<N, T> raw[kRows + K - 1];
  if (inside) {
    const T* from = plane + int64_t(top) * a.planes.in_stride_h + x;
#pragma unroll
    for (int r = 0; r < kRows + K - 1; ++r) raw[r] = load_pack<N>(from + r * a.planes.in_stride_h);
  } else {
    int my[kRows + K - 1], mx[N];
#pragma unroll
    for (int r = 0; r < kRows + K - 1; ++r) my[r] = map_at_edge(top + r, a.planes.in_h, a.border, a.peers);
#pragma unroll
    for (int i = 0; i < N; ++i) mx[i] = map_at_edge(x + i, a.planes.in_w, a.border);
    const T outside = from_acc<T>(a.value);
#pragma unroll
    for (int r = 0; r < kRows + K - 1; ++r) {
      const bool in_rows = my[r] != PeerRows::kOutside;
      const T* row =
          a.peers.row(plane, a.planes.in_stride_h, in_rows ? my[r] : 0, a.planes.in_h, at.n, at.c / a.multiplier);
#pragma unroll
      for (int i = 0; i < N; ++i) raw[r].v[i] = in_rows && mx[i] >= 0 ? row[mx[i]] : outside;
    }
  }

  A tap[K * K];
  param_taps.read(tap, at.n * a.taps_n + at.c * a.taps_c);
  const A bias = kBias ? a.bias[at.c] : A(0);
  // Columns behind the image for lanes 0 and 31, which store nothing.
  const int x_out = lane >= 1 && lane <= 30 ? x : a.planes.out_w;
  T* row_out = a.planes.out_at<T>(at.n, at.c, y0, 0);

  A sum[kRows][N];
#pragma unroll
  for (int r = 0; r < kRows + K - 1; ++r) {
    A v[N + 2 * R];
#pragma unroll
    for (int i = 0; i < N; ++i) v[R + i] = to_acc<A>(raw[r].v[i]);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      v[i] = __shfl_up_sync(~0u, v[N + i], 1);
      v[R + N + i] = __shfl_down_sync(~0u, v[R + i], 1);
    }
#pragma unroll
    for (int o = 0; o < kRows; ++o) {
      const int i = r - o;
      if (i < 0 || i >= K) continue;
#pragma unroll
      for (int p = 0; p < N; ++p) {
        A s = i == 0 ? A(0) : sum[o][p];
#pragma unroll
        for (int j = 0; j < K; ++j) s = fma(tap[i * K + j], v[p + j], s);
        sum[o][p] = s;
      }
      if (i == K - 1)
        store_pack_if(y0 + o < a.planes.out_h && x_out < a.planes.out_w, row_out + o * a.planes.out_stride_h + x_out,
                      finished<kBias, T>(sum[o], bias));
    }
  }
  if (a.border == Border::zero_output) clear_where_outside<RegTraits<T, K>, T>(a);
}

}  // namespace torch_conv::direct2d
