// CHANNELS: images and signals whose channels are interleaved in memory.
//
//     lane 0   lane 1  ...                 A lane computes `vector` channels (4 or 8 bytes) of tx x ty outputs. The
//     +--------+--------+--- channels      next lanes compute the next channels, so that a load or store of a warp is
//     /        /        /                  contiguous.
//     +-------------------+
//     | tx + kw - 1 pixels|  row 0         A lane loads input rows in order, `ahead` of their use. It converts a row
//     +-------------------+  row 1         to the accumulation type once and adds it to all outputs over it.
//     |       ...         |                Each sum is one chain in the order of the window's taps.
//     +-------------------+  row ty + kh - 2
//
// The threads of a block have neighbouring tiles, so that L1 serves the halos. The taps of a lane's channels stay in
// registers. A block loads them through shared memory, because its channels' windows are contiguous. With a dilation
// the outputs of a thread are spread: the pixels between its taps are pixels under its other outputs, and all loads
// count.
//
// Loads per output: (tx + kw - 1) (ty + kh - 1) / (tx ty), of which one from device memory. 2 kh kw flops an output.
#pragma once

#include "core/activation.h"
#include "core/cuda/device.cuh"
#include "kernels/depthwise/channels/params.h"

namespace torch_conv::depthwise {

// Loads N elements, or zeros, under a predicate. A branch around the load would wait for the loads before it.
template <int N, typename T>
__device__ __forceinline__ Pack<N, T> load_pack_or_zeros(unsigned condition, const T* from) {
  Pack<N, T> pack;
  if constexpr (sizeof(pack) == 16) {
    uint4 w;
    asm("{ .reg .pred p; setp.ne.b32 p, %4, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;\n"
        "@p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%5]; }"
        : "=&r"(w.x), "=&r"(w.y), "=&r"(w.z), "=&r"(w.w)
        : "r"(condition), "l"(from));
    memcpy(&pack, &w, 16);
  } else if constexpr (sizeof(pack) == 8) {
    uint2 w;
    asm("{ .reg .pred p; setp.ne.b32 p, %2, 0; mov.b32 %0, 0; mov.b32 %1, 0;\n"
        "@p ld.global.nc.v2.b32 {%0, %1}, [%3]; }"
        : "=&r"(w.x), "=&r"(w.y)
        : "r"(condition), "l"(from));
    memcpy(&pack, &w, 8);
  } else if constexpr (sizeof(pack) == 4) {
    unsigned w;
    asm("{ .reg .pred p; setp.ne.b32 p, %1, 0; mov.b32 %0, 0; @p ld.global.nc.b32 %0, [%2]; }"
        : "=&r"(w)
        : "r"(condition), "l"(from));
    memcpy(&pack, &w, 4);
  } else {
    static_assert(sizeof(pack) == 2, "2, 4, 8 or 16 bytes");
    unsigned short w;
    asm("{ .reg .pred p; setp.ne.b32 p, %1, 0; mov.b16 %0, 0; @p ld.global.nc.b16 %0, [%2]; }"
        : "=&h"(w)
        : "r"(condition), "l"(from));
    memcpy(&pack, &w, 2);
  }
  return pack;
}

// The first output of a thread's tile.
__device__ __forceinline__ int channels_first(const ChannelsAxis& a, unsigned tile, int outputs) {
  const unsigned group = a.spread.divide(tile);
  return int(group * (outputs * a.spread.divisor) + (tile - group * a.spread.divisor));
}

// Loads the taps and biases of a lane's channels, which pass through shared memory.
template <ChannelsShape s, typename W, typename A>
__device__ __forceinline__ void load_taps(const ChannelsArgs& a, unsigned char* shared, int c_block, int c, int lane,
                                          A (&tap)[s.kh * s.kw][s.vector], A (&bias)[s.vector]) {
  constexpr int V = s.vector, kTaps = s.kh * s.kw;
  // Shared memory holds a row of all channels of the block for each tap.
  A* const staged = reinterpret_cast<A*>(shared);
  const int pitch = (a.lanes.divisor + 1) * V;
  const int channels = min(int(a.lanes.divisor) * V, a.c_out - c_block);
  for (int i = threadIdx.x; i < channels * kTaps; i += blockDim.x)
    staged[i % kTaps * pitch + i / kTaps] = to_acc<A>(static_cast<const W*>(a.weight)[int64_t(c_block) * kTaps + i]);
  if (a.bias && c < a.c_out)
#pragma unroll
    for (int v = 0; v < V; ++v) bias[v] = to_acc<A>(static_cast<const W*>(a.bias)[c + v]);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kTaps; ++i)
#pragma unroll
    for (int v = 0; v < V; ++v) tap[i][v] = staged[i * pitch + lane * V + v];
}

template <typename T, typename W, ChannelsShape s, Activation kind>
__global__ void __launch_bounds__(kChannelsThreads, s.resident)
    depthwise_channels(const __grid_constant__ ChannelsArgs a) {
  using A = acc_t<T>;
  constexpr int V = s.vector, kTaps = s.kh * s.kw, kRows = s.rows(), kColumns = s.columns();
  constexpr int kAhead = s.ahead < kRows ? s.ahead : kRows;
  extern __shared__ __align__(16) unsigned char channels_shared[];

  const unsigned after_chunks = a.chunks.divide(blockIdx.x), after_x = a.x.blocks.divide(after_chunks);
  const int chunk = blockIdx.x - after_chunks * a.chunks.divisor, n = a.y.blocks.divide(after_x);
  const int block_x = after_chunks - after_x * a.x.blocks.divisor, block_y = after_x - n * a.y.blocks.divisor;
  const unsigned tile = a.lanes.divide(threadIdx.x), threads_x = a.x.threads.divisor;
  const int lane = threadIdx.x - tile * a.lanes.divisor, thread_y = a.x.threads.divide(tile);
  const int c_block = chunk * a.lanes.divisor * V, c = c_block + lane * V;
  const int x_block = channels_first(a.x, block_x * threads_x, s.tx),
            y_block = channels_first(a.y, block_y * a.y.threads.divisor, s.ty);
  const int x0 = channels_first(a.x, block_x * threads_x + (tile - thread_y * threads_x), s.tx),
            y0 = channels_first(a.y, block_y * a.y.threads.divisor + thread_y, s.ty);

  // The offsets of a block's pixels from its first pixel fit into 32 bits.
  const int x_in = x0 * a.x.stride - a.x.pad, y_in = y0 * a.y.stride - a.y.pad;
  const int first_in = V == 1 ? a.multiplier.divide(c_block) : c_block, c_in = V == 1 ? a.multiplier.divide(c) : c;
  const unsigned char* const from =
      static_cast<const unsigned char*>(a.in) +
      (n * a.in_n + first_in + (x_block * a.x.stride - a.x.pad) * a.in_w + (y_block * a.y.stride - a.y.pad) * a.in_h) *
          int64_t(sizeof(T));
  const unsigned next_x = a.x.dilation * unsigned(a.in_w) * sizeof(T),
                 next_y = a.y.dilation * unsigned(a.in_h) * sizeof(T);
  unsigned at_in[kColumns];
  at_in[0] = ((x0 - x_block) * a.x.stride * unsigned(a.in_w) + (y0 - y_block) * a.y.stride * unsigned(a.in_h) +
              (c_in - first_in)) *
             unsigned(sizeof(T));
#pragma unroll
  for (int q = 1; q < kColumns; ++q) at_in[q] = at_in[q - 1] + next_x;
  const bool has_outputs = c < a.c_out && x0 < a.x.out;
  unsigned inside[(kColumns + 31) / 32] = {};
#pragma unroll
  for (int q = 0; q < kColumns; ++q)
    inside[q / 32] |= unsigned(has_outputs && unsigned(x_in + q * a.x.dilation) < unsigned(a.x.in)) << q % 32;

  Pack<V, T> pixels[kRows][kColumns];
  auto load_row = [&](int r) {
    const int y = y_in + r * a.y.dilation;
    const bool exists = unsigned(y) < unsigned(a.y.in);
#pragma unroll
    for (int q = 0; q < kColumns; ++q)
      pixels[r][q] = load_pack_or_zeros<V>((exists ? inside[q / 32] : 0) & 1u << q % 32,
                                           reinterpret_cast<const T*>(from + (at_in[q] + r * next_y)));
  };
#pragma unroll
  for (int r = 0; r < kAhead; ++r) load_row(r);

  A tap[kTaps][V], bias[V] = {};
  load_taps<s, W>(a, channels_shared, c_block, c, lane, tap, bias);

  unsigned char* const to = static_cast<unsigned char*>(a.out) +
                            (n * a.out_n + c_block + x_block * a.out_w + y_block * a.out_h) * int64_t(sizeof(T));
  const unsigned at_out =
      ((x0 - x_block) * unsigned(a.out_w) + (y0 - y_block) * unsigned(a.out_h) + lane * V) * unsigned(sizeof(T));
  const unsigned next_out = a.x.spread.divisor * unsigned(a.out_w) * sizeof(T),
                 row_out = a.y.spread.divisor * unsigned(a.out_h) * sizeof(T);
  const int rest_x = has_outputs ? a.x.out - x0 : 0, rest_y = a.y.out - y0;
  A sum[s.ty][s.tx][V] = {};
  // CHANNELS_TMA has the same loop (channels_tma/kernel.cuh says why).
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r + kAhead < kRows) load_row(r + kAhead);
    A value[kColumns][V];
#pragma unroll
    for (int q = 0; q < kColumns; ++q)
#pragma unroll
      for (int v = 0; v < V; ++v) value[q][v] = to_acc<A>(pixels[r][q].v[v]);
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
            sum[o][q][v] = fma(tap[i * s.kw + j][v], value[q * s.stride_x + j][v], sum[o][q][v]);
      if (i < s.kh - 1) continue;
#pragma unroll
      for (int q = 0; q < s.tx; ++q) {
        Pack<V, T> rounded;
#pragma unroll
        for (int v = 0; v < V; ++v) rounded.v[v] = from_acc<T>(activated<kind>(sum[o][q][v] + bias[v]));
        const bool stored = o * int(a.y.spread.divisor) < rest_y && q * int(a.x.spread.divisor) < rest_x;
        T* const at = reinterpret_cast<T*>(to + (at_out + o * row_out + q * next_out));
        if constexpr (sizeof(rounded) >= 4) store_pack_if(stored, at, rounded);
        else if (stored) *at = rounded.v[0];
      }
    }
  }
}

}  // namespace torch_conv::depthwise
