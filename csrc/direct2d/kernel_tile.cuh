// TILE: a block of four warps computes one tile from shared memory, and is done.
//
//        <- pad ->                          <- pad ->      K - 1 + height rows of shared memory, brought by one bulk
//      +----------+------------------------+----------+    copy (or by plain loads); pixels outside the image arrive
//      |          :      halo K/2 rows     :          |    as zeros, so zero borders are free, and blocks at an edge
//      |          +------------------------+          |    patch the halo for the other borders.
//      |   halo   | warp 0: `rows` rows    |   halo   |
//      |   K/2    | warp 1                 |   K/2    |    A lane owns `lane_pixels` columns of its warp's rows: it
//      |  columns | warp 2                 |  columns |    reads each input row once and adds it to the K output rows
//      |          | warp 3                 |          |    that see it; rows are finished and stored from top to
//      |          +------------------------+          |    bottom, so K rows of sums are alive at a time.
//      |          :                        :          |
//      +----------+------------------------+----------+    No pipeline inside a block: the 8 blocks resident on a
//                                                          multiprocessor overlap one another.
//
// Device memory per output pixel: 1 read (halos come from L2) and 1 write; 2 K^2 flops.
#pragma once

#include "core/device.cuh"
#include "core/neighbours.cuh"
#include "core/tile.cuh"
#include "core/tma.h"
#include "direct2d/plan.h"

namespace torch_conv::direct2d {

// What TILE and REG need of a problem. Offsets inside a plane fit into 32 bits only where the stride does: rows are
// addressed with 64 bits.
template <typename T>
struct PlaneArgs {
  using A = acc_t<T>;
  const T* in;
  T* out;
  int64_t in_n, in_c, in_h, out_n, out_c, out_h;  // strides
  int h, w, rows_out, columns_out;
  int tiles_x, tiles_y;
  int lead;                      // the grid of tiles starts this many columns left of the output
  int channels_out, multiplier;  // output channels; of them per input channel
  int shift_y, shift_x;          // input position of the window's middle tap, less the output position
  Border border;
  A value;
  int64_t taps_n, taps_c;  // strides of the window
  const A* bias;
  bool vector_in;  // input rows are 16-byte aligned
  Neighbours beside;
};

template <typename T>
PlaneArgs<T> plane_args(const Direct& p, const Plan& plan, int lead) {
  using A = acc_t<T>;
  return {.in = static_cast<const T*>(p.in.data),
          .out = static_cast<T*>(p.out.data),
          .in_n = p.in.stride_n,
          .in_c = p.in.stride_c,
          .in_h = p.in.stride_h,
          .out_n = p.out.stride_n,
          .out_c = p.out.stride_c,
          .out_h = p.out.stride_h,
          .h = int(p.in.h),
          .w = int(p.in.w),
          .rows_out = int(p.out.h),
          .columns_out = int(p.out.w),
          .tiles_x = int(ceil_div(p.out.w + lead, plan.tile_w)),
          .tiles_y = int(ceil_div(p.out.h, plan.tile_h)),
          .lead = lead,
          .channels_out = int(p.out.c),
          .multiplier = int(p.out.c / p.groups),
          .shift_y = int(p.kh / 2 - p.place.pad_y),
          .shift_x = int(p.kw / 2 - p.place.pad_x),
          .border = p.place.border,
          .value = A(p.place.value),
          .taps_n = p.taps.stride_n,
          .taps_c = p.taps.stride_c,
          .bias = static_cast<const A*>(p.bias),
          .vector_in = aligned_rows(p.in),
          .beside = Neighbours::of(p.beside, p.in)};
}

// A block's tile: its place in the grid of tiles, output channel and sample.
struct TilePlace {
  int x, y, c, n;
};

template <typename T>
__device__ __forceinline__ TilePlace tile_place(const PlaneArgs<T>& a) {
  const TileIndex tile = tile_index(blockIdx.x, a.tiles_x, a.tiles_y);
  return {int(tile.x), int(tile.y), int(tile.plane % unsigned(a.channels_out)),
          int(tile.plane / unsigned(a.channels_out))};
}

// `zero_output`: is every tap of the window over output (y, x) inside the image?
template <int K, typename T>
__device__ __forceinline__ bool window_fits(const PlaneArgs<T>& a, int y, int x) {
  const int cy = y + a.shift_y, cx = x + a.shift_x;
  return a.beside.inside(cy - K / 2, cy + K / 2, a.h) && cx >= K / 2 && cx + K / 2 < a.w;
}

// One output row of a lane, rounded. Aligned rows are stored by whole packs, whose last columns are all inside.
template <int K, bool kAligned, int N, typename T>
__device__ __forceinline__ void store_row(const PlaneArgs<T>& a, T* row, int y, int x, const acc_t<T> (&sum)[N],
                                          acc_t<T> bias, bool mask) {
  Pack<N, T> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.v[i] = from_acc<T>(sum[i] + bias);
  if (mask) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (!window_fits<K>(a, y, x + i)) pack.v[i] = from_acc<T>(acc_t<T>(0));
  }
  if constexpr (kAligned) {
    store_pack_if(y < a.rows_out && x < a.columns_out, row + x, pack);
  } else if (y < a.rows_out) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (x + i >= 0 && x + i < a.columns_out) row[x + i] = pack.v[i];
  }
}

template <typename T, int K>
constexpr int tile_min_blocks() {
  // Register caps: 7x7 float32 at 64 registers makes ptxas move the taps to uniform registers (83 -> 92 % of copy at
  // 8192^2 on one NVIDIA H200); the others are the most blocks without spills.
  if (sizeof(T) == 4) return K == 5 ? 7 : 8;
  if (sizeof(T) == 2) return K == 3 ? 8 : K == 5 ? 5 : 4;
  return K == 3 ? 5 : K == 5 ? 5 : 4;
}

// Plain loads into the layout of the bulk copy, zeros outside the image. Barrier after it.
template <typename T, int K>
__device__ void load_tile_plain(const PlaneArgs<T>& a, const T* plane, T* shared, int x0, int y0) {
  constexpr TileShape shape = tile_shape(sizeof(T), K);
  constexpr int vector = 16 / sizeof(T), pitch = shape.shared_width();
  constexpr int rows = shape.height() + K - 1;
  // Only the halo's nearest vector is read later, not the whole pad.
  constexpr int first = shape.pad - vector, columns = shape.width() + 2 * vector;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool vectors = a.vector_in && a.shift_x == 0;
  for (int r = warp; r < rows; r += TileShape::warps) {
    const int y = y0 + r;
    const bool inside_y = y >= 0 && y < a.h;
    const T* row = plane + int64_t(inside_y ? y : 0) * a.in_h;
    T* to = shared + r * pitch + first;
    if (vectors) {
      for (int i = lane * vector; i < columns; i += 32 * vector) {
        const int x = x0 + first + i;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (inside_y && x >= 0 && x < a.w) v = *reinterpret_cast<const uint4*>(row + x);
        *reinterpret_cast<uint4*>(to + i) = v;
      }
    } else {
      for (int i = lane; i < columns; i += 32) {
        const int x = x0 + first + i;
        to[i] = inside_y && x >= 0 && x < a.w ? row[x] : from_acc<T>(acc_t<T>(0));
      }
    }
  }
}

// A block at an edge replaces the zeros outside the image by what the border policy puts there: first the columns of
// rows inside the image, then whole rows. What the policy repeats lies mostly in the tile itself, so it is read there
// (shared memory) and only else from the image. Rows of other shards are read where they lie. Barriers before, between
// and after it.
template <typename T, int K>
__device__ __forceinline__ void patch_border(const PlaneArgs<T>& a, const T* plane, T* shared, int bx, int by, int n,
                                             int ci) {
  constexpr TileShape shape = tile_shape(sizeof(T), K);
  constexpr int rows = shape.height() + K - 1, pitch = shape.shared_width(), R = K / 2;
  constexpr int first = shape.pad - R, last = shape.pad + shape.width() + R;  // the columns that are read
  const int top = max(0, -by), bottom = max(top, min(rows, a.h - by));        // rows inside the image
  const int left = min(max(first, -bx), last), right = max(left, min(last, a.w - bx));
  const T outside = from_acc<T>(a.value);
  __syncthreads();
  const int columns = (left - first) + min(last - right, 2 * R);  // further right ones serve no stored output
  for (int e = threadIdx.x; e < (bottom - top) * columns; e += 32 * TileShape::warps) {
    const int r = top + e / columns, q = e % columns, i = q < left - first ? first + q : right + q - (left - first);
    const int mx = map_index(bx + i, a.w, a.border), source = mx - bx;
    shared[r * pitch + i] = mx < 0                             ? outside
                            : source >= left && source < right ? shared[r * pitch + source]
                                                               : plane[int64_t(by + r) * a.in_h + mx];
  }
  __syncthreads();
  const int outside_rows = top + min(rows - bottom, 2 * R);
  constexpr int width = last - first;
  for (int e = threadIdx.x; e < outside_rows * width; e += 32 * TileShape::warps) {
    const int q = e / width, i = first + e % width, r = q < top ? q : bottom + q - top;
    const int my = a.beside.map_row(by + r, a.h, a.border), source = my - by;
    T pixel = outside;
    if (my >= 0 && source >= top && source < bottom) {
      pixel = shared[source * pitch + i];
    } else if (my != Neighbours::kOutside) {
      const int mx = map_index(bx + i, a.w, a.border);
      if (mx >= 0) pixel = a.beside.row(plane, a.in_h, my, a.h, n, ci)[mx];
    }
    shared[r * pitch + i] = pixel;
  }
  __syncthreads();
}

template <typename T, int K, bool kBulk, bool kAligned>
__global__ void __launch_bounds__(32 * TileShape::warps, tile_min_blocks<T, K>())
    direct2d_tile(const __grid_constant__ CUtensorMap map, const __grid_constant__ PlaneArgs<T> a,
                  const __grid_constant__ ParamTaps param_taps) {
  using A = acc_t<T>;
  constexpr TileShape shape = tile_shape(sizeof(T), K);
  constexpr int N = shape.lane_pixels, R = K / 2, pitch = shape.shared_width();
  // A lane's neighbours' pixels, in the smallest aligned pack that holds R of them.
  constexpr int H = sizeof(T) == 4 || R > 2 || sizeof(T) == 1 ? 4 : 2 * ((R + 1) / 2);
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  T* shared = reinterpret_cast<T*>(shared_bytes);
  [[maybe_unused]] __shared__ uint64_t barrier;

  const TilePlace at = tile_place(a);
  const int x0 = at.x * shape.width() - a.lead, y0 = at.y * shape.height();  // the tile's first output
  const int bx = x0 + a.shift_x - shape.pad, by = y0 + a.shift_y - R;        // the box's first input
  const int ci = at.c / a.multiplier;
  const T* plane = a.in + at.n * a.in_n + ci * a.in_c;

  if constexpr (kBulk) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr int pack = tma::pack_of(sizeof(T));
    if (threadIdx.x == 0) {
      tma::barrier_init(&barrier);
      tma::barrier_expect(&barrier, shape.shared_bytes(sizeof(T), K));
      // bx is a multiple of 16 bytes (lead_columns), also where it is negative.
      tma::load_box(shared, &map, &barrier, bx / pack, by, ci, at.n);
    }
    __syncthreads();
#endif
  }

  A tap[K * K];
  param_taps.read(tap, at.n * a.taps_n + at.c * a.taps_c);
  const A bias = a.bias ? a.bias[at.c] : A(0);

  if constexpr (kBulk) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    tma::barrier_wait(&barrier, 0);
#endif
  } else {
    load_tile_plain<T, K>(a, plane, shared, bx, by);
    __syncthreads();
  }

  const int right = min(x0 + shape.width(), a.columns_out) + a.shift_x + R;
  const int bottom = min(y0 + shape.height(), a.rows_out) + a.shift_y + R;
  const bool edge = bx + shape.pad - R < 0 || by < 0 || right > a.w || bottom > a.h;
  const bool mask = edge && a.border == Border::zero_output;
  const bool zeros = mask || (a.border == Border::constant && a.value == A(0));  // what the copy put outside is right
  if (edge && (!zeros || a.beside.holds(by, a.h) || a.beside.holds(bottom - 1, a.h)))
    patch_border<T, K>(a, plane, shared, bx, by, at.n, ci);

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int y = y0 + warp * shape.rows, x = x0 + lane * N;
  const T* from = shared + warp * shape.rows * pitch + shape.pad + lane * N;
  T* row_out = a.out + at.n * a.out_n + at.c * a.out_c + int64_t(y) * a.out_h;

  A sum[shape.rows][N];
#pragma unroll
  for (int r = 0; r < shape.rows + K - 1; ++r) {
    A v[N + 2 * R];
    const auto left = load_pack<H>(from + r * pitch - H);
    const auto middle = load_pack<N>(from + r * pitch);
    const auto right_of = load_pack<H>(from + r * pitch + N);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      v[i] = to_acc<A>(left.v[H - R + i]);
      v[R + N + i] = to_acc<A>(right_of.v[i]);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) v[R + i] = to_acc<A>(middle.v[i]);
#pragma unroll
    for (int o = 0; o < shape.rows; ++o) {
      const int i = r - o;  // this input row is row i of the window over output row o
      if (i < 0 || i >= K) continue;
#pragma unroll
      for (int p = 0; p < N; ++p) {
        A s = i == 0 ? A(0) : sum[o][p];
#pragma unroll
        for (int j = 0; j < K; ++j) s = fma(tap[i * K + j], v[p + j], s);
        sum[o][p] = s;
      }
      if (i == K - 1) store_row<K, kAligned>(a, row_out + o * a.out_h, y + o, x, sum[o], bias, mask);
    }
  }
}

}  // namespace torch_conv::direct2d
