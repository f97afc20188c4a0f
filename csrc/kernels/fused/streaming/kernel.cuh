// STREAMING: sums of large windows. A warp streams down a strip, and every row of it is summed along x once.
//
// clang-format off
//      skew  32 * columns pixels
//      +----+-------------------------+--+      A ring of `stages` boxes of `rows` rows in shared memory. Bulk copies
//      |    : box 0: complete         :  |      load one box after the other, from `radius` rows above the strip's
//      |    +-------------------------+  |      outputs on.
//      |    : box 1: being copied     :  |
//      |    +-------------------------+  |      The warp sums a row along x and adds it to the K - 1 rows of outputs
//      |    : ...                     :  |      that have begun. It ends and stores the oldest of them. A block is a
//      +----+-------------------------+--+      single warp, so there are no barriers between warps.
// clang-format on
//
// sum[q] belongs to the row of outputs that has seen q + 1 rows of the image. The last tap of a chain moves it on:
// sum[q] = tap * row + sum[q - 1]. So the loop needs no unrolling over K rows, and its code stays in the instruction
// cache.
//
// Rows beyond the upper and lower edge of the image are copied one by one from where the border maps them. A shard also
// reads rows of its neighbour shards. Columns beyond the left and right edge are patched in the box, a lane a column.
//
// Per output pixel: one read, one write, 4 K flops a window. Columns next to a strip come from L2; a block reads K - 1
// more rows.
#pragma once

#include "core/border.h"
#include "core/cuda/tma.cuh"
#include "kernels/fused/params.h"
#include "kernels/fused/shared/box_rows.cuh"
#include "kernels/fused/shared/stages.cuh"
#include "kernels/fused/shared/store.cuh"

namespace torch_conv::fused {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// The boxes of a strip: they come in the order from top to bottom, and are whole when `open` hands them over.
template <StreamingStrip S, typename T, class RowMap>
struct StripBoxes {
  static constexpr int kBytes = S.box_bytes(sizeof(T)), kPitch = S.pitch(sizeof(T));
  const TensorMap* map;
  const RowMap* row_map;
  const Args& a;
  const T* plane;
  unsigned char* shared;
  uint64_t* landed;
  unsigned n, c;
  int x, y;        // of the image, under the first element of box 0
  bool maps_rows;  // rows may lie outside of the image, or in another shard
  bool patches;    // columns too, or rows hold the border's value
  bool far;        // ... or a column repeats one that is in no box
  int to;          // the column of a box that this lane patches, or -1
  int from;        // the column of the image that it repeats; -1: the border's value
  int slot = 0, phase = 0;

  __device__ __forceinline__ void load(int box, int slot) const {
    constexpr int pack = tma::pack_of(sizeof(T));
    const int lane = threadIdx.x;
    T* rows = reinterpret_cast<T*>(shared + slot * kBytes);
    const int top = y + box * S.rows;
    if (lane == 0) tma::barrier_expect(&landed[slot], kBytes);
    if (!maps_rows) {
      if (lane == 0) tma::load_box(rows, map, &landed[slot], x / pack, top, c, n);
    } else if (lane < S.rows) {
      const int row = map_plane(*row_map, top + lane, a.planes.in_h, a.border);
      const PlaneOfShard from = plane_of_shard(*row_map, row, a.planes.in_h);  // rows that do not exist are zeros
      tma::load_box(rows + lane * kPitch, map_of_shard(*row_map, from.shard), &landed[slot], x / pack, from.z, c, n);
    }
  }

  __device__ __forceinline__ const T* open(int box) const {
    tma::barrier_wait(&landed[slot], phase);
    T* rows = reinterpret_cast<T*>(shared + slot * kBytes);
    if (patches) patch(rows, y + box * S.rows);
    return rows;
  }

  __device__ __forceinline__ void close(int box) {
    __syncwarp();
    if (box + S.stages < a.boxes) load(box + S.stages, slot);
    if (++slot == S.stages) slot = 0, phase ^= 1;
  }

 private:
  // A lane's column of every row of a box that starts with row `top` of the image.
  __device__ __forceinline__ void patch(T* rows, int top) const {
    const T value = from_acc<T>(a.value);
    const int h = a.planes.in_h, mapped = far ? map_plane(*row_map, top + int(threadIdx.x), h, a.border) : 0;
    T v[S.rows];
#pragma unroll
    for (int r = 0; r < S.rows; ++r) {
      v[r] = value;
      if (far) {
        const int row = __shfl_sync(~0u, mapped, r);  // each lane has mapped one
        const bool exists = row >= kLeastPlane<RowMap>;
        if (exists && to >= 0 && from >= 0)
          v[r] = plane_in_memory(*row_map, plane, a.planes.in_stride_h, row, h, n, c)[from];
        if (!exists)
          for (int i = threadIdx.x; i < kPitch; i += 32) rows[r * kPitch + i] = value;
      } else if (to >= 0 && from >= 0) {
        v[r] = rows[r * kPitch + from - x];
      }
    }
#pragma unroll
    for (int r = 0; r < S.rows; ++r)
      if (to >= 0) rows[r * kPitch + to] = v[r];
    tma::fence_before_copy();
    __syncwarp();
  }
};
#endif

template <class P, typename T, typename O, bool kAligned, bool kPeers = false>
__global__ void __launch_bounds__(32, streaming_strip<P>(sizeof(T)).blocks)
    fused_streaming(const __grid_constant__ TensorMap map, const __grid_constant__ MapOf<kPeers> row_map,
                    const __grid_constant__ Args a, const __grid_constant__ TapsOf<P> taps) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr StreamingStrip S = streaming_strip<P>(sizeof(T));
  using Stage = typename P::Start;
  constexpr int N = S.columns, K = Stage::K, R = S.radius, W = Stage::windows, kPitch = S.pitch(sizeof(T));
  static_assert(P::count == 1 && P::stride == 1 && Stage::mid == W, "a stage of windows only");
  extern __shared__ __align__(128) unsigned char shared[];
  uint64_t* landed = reinterpret_cast<uint64_t*>(shared + S.stages * S.box_bytes(sizeof(T)));  // a barrier a box

  const TilePosition tile = a.order.at(blockIdx.x);
  const int lane = threadIdx.x, height = S.height(a.boxes);
  const int x0 = tile.x * S.width(), y0 = tile.y * height, x1 = min(x0 + S.width(), a.planes.in_w);

  // Columns outside that outputs inside read, left and right of the image.
  const bool extends = a.extend > 0 && !(a.border == Border::constant && a.value == 0);
  const int left = extends ? max(R - x0, 0) : 0, right = extends ? max(x1 + R - a.planes.in_w, 0) : 0;
  const bool maps_rows = (extends || kPeers) && (y0 < R || y0 + height + R > a.planes.in_h);
  const int bx = x0 - S.skew(), outside = lane < left ? lane - left : a.planes.in_w + lane - left;
  const bool patches_column = lane < left + right;
  const int repeats = map_index(outside, a.planes.in_w, a.border);
  const bool far = patches_column && repeats >= 0 && (repeats < bx || repeats >= bx + kPitch);
  const bool fills_rows = extends && maps_rows && a.border == Border::constant;
  StripBoxes<S, T, MapOf<kPeers>> boxes{.map = &map,
                                        .row_map = &row_map,
                                        .a = a,
                                        .plane = a.planes.in_plane<T>(tile.n, tile.c),
                                        .shared = shared,
                                        .landed = landed,
                                        .n = tile.n,
                                        .c = tile.c,
                                        .x = bx,
                                        .y = y0 - R,
                                        .maps_rows = maps_rows,
                                        .patches = left + right > 0 || fills_rows,
                                        .far = __any_sync(~0u, far) || fills_rows,
                                        .to = patches_column ? outside - bx : -1,
                                        .from = repeats};
  if (lane == 0)
#pragma unroll
    for (int i = 0; i < S.stages; ++i) tma::barrier_init(&landed[i]);
  __syncwarp();
#pragma unroll 1
  for (int i = 0; i < S.stages && i < a.boxes; ++i) boxes.load(i, i);

  const int x = x0 + lane * N - a.first;
  int y = y0 - a.first - 2 * R;  // the row of outputs that the next row of the image ends
  const int first = max(y0 - a.first, 0), last = min(y0 - a.first + height, a.planes.out_h);
  O* to = a.planes.out_plane<O>(tile.n, tile.c) + int64_t(y) * a.planes.out_stride_h + x;

  float sum[W][K - 1][N] = {}, row[1][N + 2 * R];
  const T* from = boxes.open(0) + S.skew() + lane * N;
  read_row<N, R>(from, row);
#pragma unroll 1
  for (int box = 0; box < a.boxes; ++box) {
#pragma unroll
    for (int r = 0; r < S.rows; ++r) {
      float row_sums[W][N], ended[W][N], out[N];
      Compute<Stage>::row_pass(row, row_sums, taps.v);
      // The next row is loaded while this one is added.
      if (r + 1 < S.rows) {
        read_row<N, R>(from + (r + 1) * kPitch, row);
      } else {
        boxes.close(box);
        if (box + 1 < a.boxes) {
          from = boxes.open(box + 1) + S.skew() + lane * N;
          read_row<N, R>(from, row);
        }
      }
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const float* tap = taps.v + Stage::first_tap(i) + K;
#pragma unroll
        for (int e = 0; e < N; ++e) {
          ended[i][e] = fmaf(tap[K - 1], row_sums[i][e], sum[i][K - 2][e]);
#pragma unroll
          for (int j = K - 2; j > 0; --j) sum[i][j][e] = fmaf(tap[j], row_sums[i][e], sum[i][j - 1][e]);
          sum[i][0][e] = fmaf(tap[0], row_sums[i][e], 0.f);
        }
      }
#pragma unroll
      for (int e = 0; e < N; ++e) {
        float s[W], made[1];
#pragma unroll
        for (int i = 0; i < W; ++i) s[i] = ended[i][e];
        apply_point<Stage::kind, W, false>(s, 0.f, a.number, made);
        out[e] = made[0];
      }
      const bool inside = y >= first && y < last;
      if constexpr (kAligned) store_row_if(inside && x < a.planes.out_w, to, out);
      else store_elements_if(inside, to, out, x, a.planes.out_w);
      ++y, to += a.planes.out_stride_h;
    }
  }
#endif
}

}  // namespace torch_conv::fused
