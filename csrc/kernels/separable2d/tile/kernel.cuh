// Both passes of a k x k separable filter (k odd) on one tile of one plane, or of HWC images, stride 1.
//
//        shift   32 * columns outputs + (k - 1) * C
//       |-----|------------------------------|
//       +------------------------------------+ -
//       |  .  |         k / 2 halo           |        A block brings this box of input into shared memory: one bulk
//       |  .  +--------------------------+   |        copy, or loads by all threads.
//       |  .  |  warp 0: rows outputs    |   |        Each warp streams its rows + k - 1 input rows: row pass of
//       |  .  |  warp 1                  |   | box_h  the row into registers, then that row result times each
//       |  .  |  warp 2                  |   |        column tap into the k output rows that read it. The rows of
//       |  .  |  warp 3                  |   |        accumulators rotate by unrolling.
//       |  .  +--------------------------+   |
//       +------------------------------------+ -
//
// Blocks on the image's edge rewrite the part of the box outside the image before the passes; zero_output writes
// its zeros after them. The passes know no border. Per output: one read, one write, 2 * (k + k * (1 + (k - 1) / rows))
// flops. Blocks are short and run in raster order, so that halos are still in L2.
//
// Rows of outputs that start on a lane's vector are stored from registers. Others go through shared memory, a warp's
// row at a time, and are stored in vectors of 16 bytes. Tiles then overlap by one vector; both tiles make its outputs,
// with the same bits.
#pragma once

#include "core/cuda/async_copy.cuh"
#include "core/cuda/extend.cuh"
#include "core/cuda/packed.cuh"
#include "core/cuda/tma.cuh"
#include "core/cuda/unaligned_rows.cuh"
#include "kernels/separable2d/tile/params.h"

namespace torch_conv::separable2d {

// All threads load the part of the box inside the image; extend_box fills the rest. Rows that start on 16
// bytes are copied by vectors.
template <typename T, TileShape S>
__device__ __forceinline__ void load_aligned(T* box, const T* plane, const TileParams& p, SharedOrigin at) {
  constexpr int N = 16 / sizeof(T), kThreads = 32 * kTileWarps;
#pragma unroll 4
  for (int i = threadIdx.x; i < S.box_h * (S.pitch / N); i += kThreads) {
    const int r = i / (S.pitch / N), c = i % (S.pitch / N) * N;
    const int y = at.y + r, x = at.x + c;
    if (unsigned(y) >= unsigned(p.planes.in_h)) continue;
    const T* from = plane + y * p.planes.in_stride_h + x;
    if (x >= 0 && x + N <= p.planes.in_w) {
      async_copy<16>(box + r * S.pitch + c, from);
    } else {
      for (int e = 0; e < N; ++e)
        if (unsigned(x + e) < unsigned(p.planes.in_w)) box[r * S.pitch + c + e] = from[e];
    }
  }
  async_wait_all();
}

// Loads rows that start anywhere. A thread makes kAtOnce pieces of 8 bytes of the box at once, from aligned words of 4
// bytes. Memory may end in a word that also holds elements of other rows: such elements are read one by one.
template <typename T, TileShape S>
__device__ __forceinline__ void load_shifted(T* box, const T* plane, const TileParams& p, SharedOrigin at) {
  constexpr int N = 8 / sizeof(T), kAcross = S.pitch / N, kAll = S.box_h * kAcross, kAtOnce = 3;
  constexpr int kThreads = 32 * kTileWarps;
#pragma unroll 1
  for (int first = threadIdx.x; first < kAll; first += kAtOnce * kThreads) {
    Pack<2, unsigned> loaded[kAtOnce];
    bool whole[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int item = first + i * kThreads, y = at.y + item / kAcross, x = at.x + item % kAcross * N;
      const auto address = reinterpret_cast<uintptr_t>(plane + y * p.planes.in_stride_h + x);
      const int behind = int(address & 3), before = behind / int(sizeof(T)), after = behind ? kPerWord<T> - before : 0;
      whole[i] = item < kAll && unsigned(y) < unsigned(p.planes.in_h) && x >= before && x + N + after <= p.planes.in_w;
      const unsigned* const words = reinterpret_cast<const unsigned*>(address - behind);
      unsigned word[3] = {};
      if (whole[i]) word[0] = words[0], word[1] = words[1];
      if (sizeof(T) < 4 && whole[i] && behind) word[2] = words[2];
      loaded[i] = {__funnelshift_r(word[0], word[1], 8 * behind), __funnelshift_r(word[1], word[2], 8 * behind)};
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int item = first + i * kThreads;
      T* const to = box + item * N;
      if (whole[i]) {
        *reinterpret_cast<Pack<2, unsigned>*>(to) = loaded[i];
      } else if (item < kAll) {
        const int y = at.y + item / kAcross, x = at.x + item % kAcross * N;
        if (unsigned(y) >= unsigned(p.planes.in_h)) continue;
#pragma unroll 1
        for (int e = 0; e < N; ++e)
          if (unsigned(x + e) < unsigned(p.planes.in_w)) to[e] = plane[y * p.planes.in_stride_h + x + e];
      }
    }
  }
}

// Row results of a lane; `from` is the first vector that holds a tap of the lane's first output.
template <typename T, TileShape S, int K, int kPixel, int N>
__device__ __forceinline__ void row_pass(const T* from, const float (&taps)[K], float (&result)[N]) {
  constexpr int kSkip = S.shift % N;  // the tap's offset in it
  constexpr int kVectors = (kSkip + N + S.halo + N - 1) / N;
  float row[kVectors * N];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) widen_pack<N>(from + i * N, row + i * N);
#pragma unroll
  for (int e = 0; e < N; ++e) {
    result[e] = 0;
#pragma unroll
    for (int j = 0; j < K; ++j) result[e] = fmaf(taps[j], row[kSkip + e + j * kPixel], result[e]);
  }
}

// Output row `o` of a lane, whose first output is `own` in row 0, column x of the image. `stage`: where rows of the
// warp wait.
template <typename T, TileShape S>
__device__ __forceinline__ void store_row(const TileParams& p, T* own, const float (&sums)[S.columns], int o, int x,
                                          int rows_left, int columns_left, unsigned char* stage) {
  constexpr int N = S.columns;
  Pack<N, T> v;
  if constexpr (sizeof(T) == 1) {
    v = narrow_pack<T>(sums);
  } else {
#pragma unroll
    for (int e = 0; e < N; ++e) v.v[e] = from_acc<T>(sums[e]);
  }
  T* to = own + o * p.planes.out_stride_h;
  if constexpr (S.overlap > 0) {
    const int lane = threadIdx.x % 32, x0 = x - lane * N, left = columns_left + lane * N;
    const auto put = [&](unsigned* words) {
      constexpr int count = N * int(sizeof(T)) / 4;
      unsigned w[count];
      memcpy(w, &v, sizeof(w));
#pragma unroll
      for (int i = 0; i < count; ++i) words[count * lane + i] = w[i];
    };
    if (o < rows_left)
      store_unaligned<S.covered()>(to - lane * N, max(-x0, 0), min(S.covered(), left), x0 <= 0 || left <= S.covered(),
                                   stage + o % 2 * S.stage_bytes(sizeof(T)), put);
  } else if constexpr (sizeof(v) > 4) {
    store_pack_if(x >= 0 && columns_left > 0 && o < rows_left, to, v);
  } else if (x >= 0 && columns_left > 0 && o < rows_left) {
    *reinterpret_cast<Pack<N, T>*>(to) = v;
  }
}

// kPixel: contiguous numbers of a pixel. kAligned: output rows are aligned to a lane's vector and whole
// vectors wide.
template <typename T, int K, int kPixel, bool kAligned>
__global__ void __launch_bounds__(32 * kTileWarps, tile_shape(sizeof(T), K, kPixel, kAligned).min_blocks)
    separable_tile(const __grid_constant__ TileParams p, const __grid_constant__ TensorMap map) {
  constexpr TileShape S = tile_shape(sizeof(T), K, kPixel, kAligned);
  constexpr int N = S.columns;
  extern __shared__ __align__(128) unsigned char shared[];
  T* box = reinterpret_cast<T*>(shared);

  const TilePosition tile = p.order.at(blockIdx.x);
  const unsigned n = tile.n, c = tile.c;
  const int x0 = int(tile.x * S.w()) - p.lead, y0 = tile.y * S.h();
  const SharedOrigin at{y0 - p.pad_y, x0 - p.pad_x - S.shift};
  const int h = min(S.h(), p.planes.out_h - y0) + K - 1, w = min(S.covered(), p.planes.out_w - x0) + S.halo;
  const bool edge = at.y < 0 || at.y + h > p.planes.in_h || at.x + S.shift < 0 || at.x + S.shift + w > p.planes.in_w;
  const T* in = p.planes.in_plane<T>(n, c);

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint64_t* const arrived = reinterpret_cast<uint64_t*>(shared + S.bytes(sizeof(T)));
  if (p.bulk) {
    if (threadIdx.x == 0) {
      tma::barrier_init(arrived);
      tma::barrier_expect(arrived, S.bytes(sizeof(T)));
      // The map counts 4-byte words: a box is at most 256 of them wide.
      tma::load_box(box, &map, arrived, at.x * int(sizeof(T)) / 4, at.y, c, n);
    }
  } else
#endif
  {
    if (p.aligned_loads) load_aligned<T, S>(box, in, p, at);
    else load_shifted<T, S>(box, in, p, at);
  }
  // Read at an address that is uniform in the block and under the register cap, the taps move to uniform registers.
  float taps_x[K], taps_y[K];
  const float* from_x = p.taps.of<float>(p.taps.x, n, c);
  const float* from_y = p.taps.of<float>(p.taps.y, n, c);
#pragma unroll
  for (int i = 0; i < K; ++i) taps_x[i] = from_x[i], taps_y[i] = from_y[i];
  __syncthreads();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (p.bulk) tma::barrier_wait(arrived, 0);
#endif
  const bool reads_peers = p.peers.holds(at.y, p.planes.in_h) || p.peers.holds(at.y + h - 1, p.planes.in_h);
  if (reads_peers || (edge && p.border != Border::zero_output && !(p.bulk && p.zero_fill))) {
    extend_box<32 * kTileWarps>(SharedTile<T>{box + S.shift, S.pitch}, {0, h, 0, w}, {at.y, at.x + S.shift}, in,
                                p.planes.in_stride_h, p.planes.in_h, p.planes.in_w, p.border, from_acc<T>(p.value),
                                ShardRows{p.peers, n, c}, {kPixel, kPixel});
    __syncthreads();
  }

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int y = y0 + warp * S.rows, x = x0 + lane * N;
  const int rows_left = p.planes.out_h - y, columns_left = p.planes.out_w - x;
  if (rows_left <= 0) return;
  T* out = p.planes.out_at<T>(n, c, y, x);
  unsigned char* const stage = shared + S.bytes(sizeof(T)) + 16 + 2 * warp * S.stage_bytes(sizeof(T));
  const T* from = box + warp * S.rows * S.pitch + S.shift / N * N + lane * N;

  float sums[S.rows][N];
#pragma unroll
  for (int r = 0; r < S.rows + K - 1; ++r) {
    float result[N];
    row_pass<T, S, K, kPixel>(from + r * S.pitch, taps_x, result);
#pragma unroll
    for (int o = 0; o < S.rows; ++o) {
      if (o > r || o + K <= r) continue;
#pragma unroll
      for (int e = 0; e < N; ++e) sums[o][e] = fmaf(taps_y[r - o], result[e], o == r ? 0.f : sums[o][e]);
    }
    if (r < K - 1) continue;
    store_row<T, S>(p, out, sums[r - (K - 1)], r - (K - 1), x, rows_left, columns_left, stage);
  }

  if (edge && p.border == Border::zero_output) {
    __syncwarp();  // other lanes have stored this one's columns
    for (int o = 0; o < min(S.rows, rows_left); ++o) {
      const int top = y + o - p.pad_y;
      for (int e = max(0, -x); e < min(N, columns_left); ++e) {
        const int first = x + e - p.pad_x;
        if (!p.peers.inside(top, top + K - 1, p.planes.in_h) || first < 0 || first + S.halo >= p.planes.in_w)
          out[o * p.planes.out_stride_h + e] = from_acc<T>(0.f);
      }
    }
  }
}

}  // namespace torch_conv::separable2d
