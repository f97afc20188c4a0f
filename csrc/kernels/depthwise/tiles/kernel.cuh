// TILES: contiguous rows of pixels; a block computes a tile of a large plane, or several small planes.
//
// clang-format off
//        lead      columns         lead (of the next row)
//      +------+------------------+ - - -     Shared memory holds a tile with its halo, or padded planes.
//      | 0  0 | 0  0  0  0  0  0 | 0  0      Bulk tensor copies load it (S.load is 0), or else vectors as wide as the
//      | 0  0 | x  x  x  x  x  x | 0  0      alignment of the input. Pixel 0 of a row starts on 16 bytes.
//      | 0  0 | x  x  x  x  x  x | 0  0
//      | 0  0 | x  x [px x ry ]  | 0  0      A thread computes px columns of ry output rows of one plane. It reads
//      +------+------------------+ - - -     each of its input rows once, by vectors of 16, 8 and 4 bytes.
// clang-format on
//
// Device memory per output: one read of the input (and of the halo, mostly from L2), one write; 2 kh kw flops.
// A sum is one chain in the order of the window's taps. Up to 49 taps stay in registers. Larger windows are read from
// shared memory, one row at a time.
#pragma once

#include "core/activation.h"
#include "core/cuda/async_copy.cuh"
#include "core/cuda/tma.cuh"
#include "kernels/depthwise/shared/row_sums.cuh"
#include "kernels/depthwise/tiles/params.h"

namespace torch_conv::depthwise {

namespace tiles {

// Elements [kFirst, kFirst + N) in the accumulation type. `from` is aligned to 16 bytes.
template <int kFirst, int N, typename T>
__device__ __forceinline__ void read(const T* from, float (&to)[N]) {
  constexpr int V = 16 / int(sizeof(T));
#pragma unroll
  for (int at = 0; at < kFirst + N; at += V) {
    const int low = kFirst - at > 0 ? kFirst - at : 0, high = kFirst + N - at < V ? kFirst + N - at : V;
    T v[V];
    if (low < high) {
      if (low < V / 2 && high > V / 2) {
        const auto pack = load_pack<V>(from + at);
#pragma unroll
        for (int e = 0; e < V; ++e) v[e] = pack.v[e];
      } else if (low < V / 2) {
        const auto pack = load_pack<V / 2>(from + at);
#pragma unroll
        for (int e = 0; e < V / 2; ++e) v[e] = pack.v[e];
      } else {
        const auto pack = load_pack<V / 2>(from + at + V / 2);
#pragma unroll
        for (int e = 0; e < V / 2; ++e) v[V / 2 + e] = pack.v[e];
      }
#pragma unroll
      for (int e = 0; e < V; ++e)
        if (e >= low && e < high) to[at + e - kFirst] = to_acc<float>(v[e]);
    }
  }
}

// Stores vectors of kBytes whose first element is one of the first `count`.
template <bool kPredicate, int kBytes, int N, typename T>
__device__ __forceinline__ void write(T* to, const T (&from)[N], int count) {
  constexpr int E = kBytes / int(sizeof(T));
  using Vector = typename VectorOf<kBytes>::type;
#pragma unroll
  for (int at = 0; at < N; at += E) {
    if constexpr (kPredicate && kBytes >= 4) {
      Pack<E, T> pack;
      memcpy(&pack, from + at, kBytes);
      store_pack_if(at < count, to + at, pack);
    } else {
      Vector vector;
      memcpy(&vector, from + at, kBytes);
      if (at < count) *reinterpret_cast<Vector*>(to + at) = vector;
    }
  }
}

// Adds up a thread's outputs, with all taps in registers. finish(o) stores output row o.
template <TilesPolicy S, typename T, typename Finish>
__device__ __forceinline__ void add_up_from_registers(const TilesArgs& a, const T* at, const float* tap_at,
                                                      float (&sum)[S.ry][S.px], const Finish& finish) {
  float tap[S.tap_slot()];
#pragma unroll
  for (int i = 0; i < S.tap_slot(); i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(tap_at + i);
    tap[i] = four.x, tap[i + 1] = four.y, tap[i + 2] = four.z, tap[i + 3] = four.w;
  }
#pragma unroll
  for (int r = 0; r < S.rows(); ++r) {
    float v[S.columns()];
    read<S.first>(at + r * a.pitch, v);
    add_row<S>(r, v, tap, sum, finish);
  }
}

// Adds up a thread's outputs, with taps from shared memory.
template <TilesPolicy S, typename T>
__device__ __forceinline__ void add_up_from_shared(const TilesArgs& a, const T* at, const float* tap_at,
                                                   float (&sum)[S.ry][S.px]) {
  constexpr int KH = S.kh, KW = S.kw, SY = S.stride_y, SX = S.stride_x, DY = S.dilation_y, DX = S.dilation_x;
  constexpr int N = S.columns();
  const auto add_row = [&](int o, int i, const float(&v)[N]) {
#pragma unroll
    for (int first = 0; first < KW; first += 4) {
      const float4 four = *reinterpret_cast<const float4*>(tap_at + i * S.tap_pitch() + first);
      const float tap[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int j = first; j < first + 4 && j < KW; ++j)
#pragma unroll
        for (int p = 0; p < S.px; ++p) sum[o][p] = fmaf(tap[j - first], v[p * SX + j * DX], sum[o][p]);
    }
  };
  if constexpr (SY == 1 && DY == 1) {
#pragma unroll 1
    for (int r = 0; r < S.rows(); ++r) {
      float v[N];
      read<S.first>(at + r * a.pitch, v);
#pragma unroll
      for (int o = 0; o < S.ry; ++o)
        if (r >= o && r - o < KH) add_row(o, r - o, v);
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < KH; ++i)
#pragma unroll
      for (int o = 0; o < S.ry; ++o) {
        float v[N];
        read<S.first>(at + (o * SY + i * DY) * a.pitch, v);
        add_row(o, i, v);
      }
  }
}

// A block's tile of one plane, or its group of small planes.
template <typename T, typename W, TilesPolicy S, Activation kind>
struct BlockPlanes {
  static constexpr int kTaps = S.kh * S.kw, PX = S.px, RY = S.ry, kThreads = S.threads;

  const TilesArgs& a;
  unsigned char* const shared;
  T* const tile;
  float* const taps;
  TilesPosition* const positions;
  const int tid = threadIdx.x;
  int x, y;  // the first output of the tile
  unsigned first_plane;
  int group;  // planes

  __device__ __forceinline__ BlockPlanes(const TilesArgs& args, unsigned char* memory)
      : a(args),
        shared(memory),
        tile(reinterpret_cast<T*>(memory)),
        taps(reinterpret_cast<float*>(memory + a.taps_at)),
        positions(reinterpret_cast<TilesPosition*>(memory + a.positions_at)) {
    unsigned index = blockIdx.x;
    x = y = 0;
    if (a.tiles_x > 1) x = int(index % a.tiles_x) * a.tile_w, index /= a.tiles_x;
    if (a.tiles_y > 1) y = int(index % a.tiles_y) * a.tile_h, index /= a.tiles_y;
    first_plane = index * a.group;
    group = int(min(unsigned(a.group), a.planes - first_plane));
  }

  // Writes the positions of the planes, and starts their bulk copies or clears the memory of the tile.
  __device__ __forceinline__ void start(const TensorMap& map, uint64_t* full) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if constexpr (S.load == 0) {
      if (tid == 0) {
        tma::barrier_init(full);
        tma::barrier_expect(full, group * a.box_bytes);
      }
      __syncwarp();
    }
#endif
    if (tid < group) {
      const unsigned plane = first_plane + tid, n = plane / a.channels, c = plane - n * a.channels;
      const unsigned from = a.multiplier == 1 ? c : c / a.multiplier;
      positions[tid] = {n * a.in_n + from * a.in_c, n * a.out_n + c * a.out_c, int(c), 0};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
      if constexpr (S.load == 0)
        tma::load_box(tile + tid * a.slot, &map, full, (x * S.stride_x - a.lead) / tma::pack_of(sizeof(T)),
                      y * S.stride_y - a.pad_y, int(from), int(n));
#endif
    }
    if constexpr (S.load > 0) {
#pragma unroll 4
      for (int e = tid; e < a.taps_at / 16; e += kThreads) reinterpret_cast<uint4*>(shared)[e] = uint4{};
    }
  }

  // Loads the pixels inside the planes, in vectors of S.load bytes.
  __device__ __forceinline__ void load_vectors() const {
    if (a.rows <= 0) return;
    constexpr int E = S.load / int(sizeof(T));
    const int y_first = y * S.stride_y + a.first_row, x_first = x * S.stride_x + a.first_column;
    const T* const from = static_cast<const T*>(a.in) + int64_t(y_first) * a.in_h + x_first;
    T* const to = tile + (a.first_row + a.pad_y) * a.pitch + (a.first_column + a.lead);
    const int vectors = a.vectors.divisor;
    int row = a.vectors.divide(tid), vector = tid - row * vectors, g = 0;
    while (row >= a.rows) row -= a.rows, ++g;
#pragma unroll 2
    while (g < group) {
      const int yy = y_first + row, xx = x_first + vector * E;
      if (unsigned(yy) < unsigned(a.h) && unsigned(xx) < unsigned(a.w)) {
        const T* const source = from + positions[g].in + row * a.in_h + vector * E;
        T* const target = to + g * a.slot + row * a.pitch + vector * E;
        if constexpr (S.load >= 4) async_copy<S.load>(target, source, min(E, a.w - xx) * int(sizeof(T)));
        else *target = *source;
      }
      vector += a.step_vectors;
      row += a.step_rows;
      if (vector >= vectors) vector -= vectors, ++row;
      while (row >= a.rows) row -= a.rows, ++g;
    }
  }

  __device__ __forceinline__ void load_taps() const {
    for (int e = tid; e < group * kTaps; e += kThreads) {
      const int g = e / kTaps, tap = e - g * kTaps;
      taps[g * S.tap_slot() + tap / S.kw * S.tap_pitch() + tap % S.kw] =
          to_acc<float>(static_cast<const W*>(a.weight)[int64_t(positions[g].channel) * kTaps + tap]);
    }
  }

  // Computes and stores the outputs of a thread: px columns of ry rows of plane g.
  __device__ __forceinline__ void compute() const {
    const int g = a.units.divide(tid), unit = tid - g * a.units.divisor;
    const int band = a.strips.divide(unit), strip = unit - band * a.strips.divisor;
    if (g >= group) return;
    const TilesPosition position = positions[g];
    const float bias = a.bias ? to_acc<float>(static_cast<const W*>(a.bias)[position.channel]) : 0.f;
    const T* const at = tile + g * a.slot + band * RY * S.stride_y * a.pitch + a.skip + strip * PX * S.stride_x;
    const float* const tap_at = taps + g * S.tap_slot();
    const int x0 = x + strip * PX, y0 = y + band * RY;
    const int most_x = min(x + a.tile_w, a.out_w_size) - x0, most_y = min(y + a.tile_h, a.out_h_size) - y0;
    T* to;
    int64_t to_row;
    if constexpr (S.staged) {
      to_row = a.out_w_size;
      to = results() + (g * a.out_h_size + y0) * a.out_w_size + x0;
    } else {
      to_row = a.out_h;
      to = static_cast<T*>(a.out) + position.out + y0 * a.out_h + x0;
    }
    float sum[RY][PX] = {};
    const auto finish = [&](int o) {
      T rounded[PX];
#pragma unroll
      for (int p = 0; p < PX; ++p) rounded[p] = from_acc<T>(activated<kind>(sum[o][p] + bias));
      if constexpr (S.staged) {
        if (o < most_y) write<false, S.store>(to + o * to_row, rounded, most_x);
      } else {
        write<true, S.store>(to + o * to_row, rounded, o < most_y ? most_x : 0);
      }
    };
    if constexpr (S.in_registers()) {
      add_up_from_registers<S>(a, at, tap_at, sum, finish);
    } else {
      add_up_from_shared<S>(a, at, tap_at, sum);
#pragma unroll
      for (int o = 0; o < RY; ++o) finish(o);
    }
  }

  T* results() const { return reinterpret_cast<T*>(shared + a.results_at); }

  // Stores the planes, which are contiguous, from shared memory.
  __device__ __forceinline__ void store_staged() const {
    constexpr int V = 16 / int(sizeof(T));
    const int plane_size = a.out_h_size * a.out_w_size, count = group * plane_size;
    T* const to = static_cast<T*>(a.out) + int64_t(first_plane) * plane_size;
    for (int e = tid * V; e + V <= count; e += kThreads * V)
      *reinterpret_cast<uint4*>(to + e) = *reinterpret_cast<const uint4*>(results() + e);
    for (int e = count / V * V + tid; e < count; e += kThreads) to[e] = results()[e];
  }
};

}  // namespace tiles

template <typename T, typename W, TilesPolicy shape, Activation kind>
__global__ void __launch_bounds__(shape.threads, shape.resident)
    depthwise_tiles(const __grid_constant__ TilesArgs a, const __grid_constant__ TensorMap map) {
  extern __shared__ __align__(128) unsigned char tiles_shared[];
  [[maybe_unused]] __shared__ uint64_t full;
  const tiles::BlockPlanes<T, W, shape, kind> block(a, tiles_shared);
  block.start(map, &full);
  __syncthreads();
  if constexpr (shape.load > 0) block.load_vectors();
  block.load_taps();
  if constexpr (shape.load >= 4) async_wait_all();
  __syncthreads();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (shape.load == 0) tma::barrier_wait(&full, 0);
#endif
  block.compute();
  if constexpr (shape.staged) {
    __syncthreads();
    block.store_staged();
  }
}

}  // namespace torch_conv::depthwise
