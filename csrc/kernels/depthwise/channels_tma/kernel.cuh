// CHANNELS_TMA: images and signals whose channels are interleaved in memory, through shared memory.
//
//     <- threads_x tx stride_x + kw - stride_x pixels ->
//     +--------------------------------------------------+   A block loads its tile and halo of lanes x vector channels
//     | halo                                             |   by one bulk copy a row. Zeros stand for pixels outside.
//     |    +----------+----------+----------+            |   It loads nothing later: several blocks on a
//     |    | tx x ty  |          |          |            |   multiprocessor overlap one another.
//     |    +----------+----------+----------+            |
//     |    |          |          |          |            |   A lane computes `vector` channels of tx x ty outputs. A
//     |    +----------+----------+----------+            |   warp reads whole vectors of neighbouring channels. Taps
//     +--------------------------------------------------+   are in registers.
//
// Shared loads per output: (tx + kw - 1) (ty + kh - 1) / (tx ty). 2 kh kw flops an output.
#pragma once

#include "core/activation.h"
#include "core/cuda/tma.cuh"
#include "kernels/depthwise/channels_tma/params.h"

namespace torch_conv::depthwise {

// Copies contiguous bytes to shared memory. Both addresses and the length are multiples of 16.
__device__ __forceinline__ void load_bytes(void* shared, const void* from, int bytes, uint64_t* barrier) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(shared)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
#endif
}

// Loads contiguous numbers of a thread from shared memory, by the widest vectors that they fill.
template <int count, typename W, typename A>
__device__ __forceinline__ void load_contiguous(const W* from, A* to) {
  constexpr int kBytes = count * int(sizeof(W));
  constexpr int kVector = kBytes % 16 == 0 ? 16 : kBytes % 8 == 0 ? 8 : kBytes % 4 == 0 ? 4 : 2;
  constexpr int N = kVector / int(sizeof(W));
#pragma unroll
  for (int i = 0; i < count / N; ++i) {
    const auto pack = load_pack<N>(from + i * N);
#pragma unroll
    for (int e = 0; e < N; ++e) to[i * N + e] = to_acc<A>(pack.v[e]);
  }
}

// Computes the tile of a thread from the rows of the ring, of which `slot` is its first, and stores it. Another variant
// has the same loop, because a shared function changes the order of instructions. With one, signals of k = 15 took 1.15
// times as long on one NVIDIA H200.
template <typename T, ChannelsBox s, Activation kind, typename A>
__device__ __forceinline__ void compute_tile(const ChannelsTmaArgs& a, const unsigned char* from, int slot,
                                             const A (&tap)[s.vector * s.kh * s.kw], const A (&bias)[s.vector], T* to,
                                             int rest_y, int rest_x) {
  constexpr int V = s.vector, kTaps = s.kh * s.kw, kSize = int(sizeof(T)), kRowBytes = s.row_bytes(kSize);
  constexpr int kColumns = (s.tx - 1) * s.stride_x + s.kw, kRows = (s.ty - 1) * s.stride_y + s.kh;
  A sum[s.ty][s.tx][V] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    A value[kColumns][V];
    const unsigned char* const row = from + slot * kRowBytes;
    if (++slot == s.ring_rows() && s.streaming) slot = 0;
#pragma unroll
    for (int q = 0; q < kColumns; ++q) {
      const auto pack = load_pack<V>(reinterpret_cast<const T*>(row + q * s.channels() * kSize));
#pragma unroll
      for (int v = 0; v < V; ++v) value[q][v] = to_acc<A>(pack.v[v]);
    }
#pragma unroll
    for (int o = 0; o < s.ty; ++o) {
      const int i = r - o * s.stride_y;  // this input row is row i of the window over output row o
      if (i < 0 || i >= s.kh) continue;
#pragma unroll
      for (int j = 0; j < s.kw; ++j)
#pragma unroll
        for (int q = 0; q < s.tx; ++q)
#pragma unroll
          for (int v = 0; v < V; ++v)
            sum[o][q][v] = fma(tap[v * kTaps + i * s.kw + j], value[q * s.stride_x + j][v], sum[o][q][v]);
      if (i < s.kh - 1) continue;
      T* at = to + o * a.out_h;
      const int most = o < rest_y ? rest_x : 0;
#pragma unroll
      for (int q = 0; q < s.tx; ++q) {
        Pack<V, T> rounded;
#pragma unroll
        for (int v = 0; v < V; ++v) rounded.v[v] = from_acc<T>(activated<kind>(sum[o][q][v] + bias[v]));
        if constexpr (sizeof(rounded) >= 4) store_pack_if(q < most, at, rounded);
        else if (q < most) *at = rounded.v[0];
        at += a.out_w;
      }
    }
  }
}

template <typename T, typename W, ChannelsBox s, Activation kind>
__global__ void __launch_bounds__(s.threads(), s.resident)
    depthwise_channels_tma(const __grid_constant__ ChannelsTmaArgs a, const __grid_constant__ TensorMap map) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using A = acc_t<T>;
  constexpr int V = s.vector, kTaps = s.kh * s.kw, kSize = int(sizeof(T));
  extern __shared__ __align__(128) unsigned char channels_box[];
  uint64_t* const barriers = reinterpret_cast<uint64_t*>(channels_box + s.barriers_at(kSize, sizeof(W)));
  W* const taps = reinterpret_cast<W*>(channels_box + s.taps_at(kSize));
  constexpr int kRowBytes = s.row_bytes(kSize), kBoxRowBytes = s.columns() * s.channels() * kSize;

  const int lane = threadIdx.x % s.lanes, tile_at = threadIdx.x / s.lanes;
  const int thread_x = tile_at % s.threads_x, thread_y = tile_at / s.threads_x;
  const unsigned char* const from = channels_box + (thread_x * (s.tx * s.stride_x) * s.channels() + lane * V) * kSize;
  if (threadIdx.x == 0) {
    tma::barrier_init(&barriers[0]);
    tma::barrier_init(&barriers[1]);
  }

  // A block that streams takes `steps` tiles: the tiles of a column from the top, then the tiles of the next channels.
  // Another block has one tile, and the next block the next channels.
  int work = s.streaming ? int(blockIdx.x) * a.steps : 0, count = 0;
  const int work_end = s.streaming ? min(work + a.steps, a.tiles) : 1;
#pragma unroll 1
  do {
    unsigned column = blockIdx.x;
    int tile = 0, steps = 1;
    if constexpr (s.streaming) {
      column = a.tiles_y.divide(work);
      tile = work - column * a.tiles_y.divisor;
      steps = min(int(a.tiles_y.divisor) - tile, work_end - work);
      work += steps;
    }
    const unsigned after_chunks = a.chunks.divide(column), after_x = a.blocks_x.divide(after_chunks);
    const int chunk = column - after_chunks * a.chunks.divisor;
    const int x_block = (after_chunks - after_x * a.blocks_x.divisor) * (s.threads_x * s.tx);
    int n = after_x;
    if constexpr (!s.streaming) {
      n = a.tiles_y.divide(after_x);
      tile = after_x - n * a.tiles_y.divisor;
    }
    const int c_block = chunk * s.channels(), c = c_block + lane * V;
    const int x0 = x_block + thread_x * s.tx, y_block = tile * (s.threads_y * s.ty);
    const W* const windows = static_cast<const W*>(a.weight) + int64_t(c_block) * kTaps;
    const int channels = min(s.channels(), a.c - c_block);

    // Called by one thread. Loads rows of the tiles' pixels from row `first` on.
    auto load_rows = [&](int first, int rows, uint64_t* barrier, int more_bytes) {
      tma::barrier_expect(barrier, rows * kBoxRowBytes + more_bytes);
#pragma unroll 1
      for (int r = first; r < first + rows; ++r)
        tma::load_box(channels_box + (s.streaming ? r % s.ring_rows() : r) * kRowBytes, &map, barrier, c_block,
                      x_block * s.stride_x - a.pad_x, y_block * s.stride_y - a.pad_y + r, n);
    };
    if (threadIdx.x == 0) {
      const int taps_bytes = a.bulk_taps ? channels * kTaps * int(sizeof(W)) : 0;
      load_rows(0, s.rows(), &barriers[count % 2], taps_bytes);
      if (taps_bytes) load_bytes(taps, windows, taps_bytes, &barriers[count % 2]);
      if (s.streaming && steps > 1) load_rows(s.rows(), s.next_rows(), &barriers[(count + 1) % 2], 0);
    }
    if (!a.bulk_taps)
#pragma unroll 1
      for (int i = threadIdx.x; i < channels * kTaps; i += s.threads()) taps[i] = windows[i];
    A bias[V] = {};
    if (a.bias && c < a.c)
#pragma unroll
      for (int v = 0; v < V; ++v) bias[v] = to_acc<A>(static_cast<const W*>(a.bias)[c + v]);
    __syncthreads();
    tma::barrier_wait(&barriers[count % 2], count / 2 % 2);
    A tap[V * kTaps];  // the windows of the channels in order
    load_contiguous<V * kTaps>(taps + lane * (V * kTaps), tap);

    T* to = static_cast<T*>(a.out) + n * a.out_n + (y_block + thread_y * s.ty) * a.out_h + x0 * a.out_w + c;
    const int rest_x = c < a.c ? a.w_out - x0 : 0;
    int rest_y = a.h_out - y_block - thread_y * s.ty, first = 0;
#pragma unroll 1
    for (int step = 0; step < steps; ++step, ++count) {
      if (step > 0) tma::barrier_wait(&barriers[count % 2], count / 2 % 2);
      int slot = first + thread_y * (s.ty * s.stride_y);
      if (s.streaming && slot >= s.ring_rows()) slot -= s.ring_rows();
      compute_tile<T, s, kind>(a, from, slot, tap, bias, to, rest_y, rest_x);
      if constexpr (s.streaming) {
        __syncthreads();
        if (threadIdx.x == 0 && step + 2 < steps)
          load_rows(s.rows() + (step + 1) * s.next_rows(), s.next_rows(), &barriers[count % 2], 0);
        first += s.next_rows();
        if (first >= s.ring_rows()) first -= s.ring_rows();
        to += s.threads_y * s.ty * a.out_h;
        rest_y -= s.threads_y * s.ty;
      }
    }
  } while (s.streaming && work < work_end);
#endif
}

}  // namespace torch_conv::depthwise
