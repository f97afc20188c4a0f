// CHANNELS_ROWS: large windows over images whose channels are interleaved in memory.
//
//     <- threads_x tx stride_x + kw - stride_x pixels ->
//     +--------------------------------------------------+   Row i of the windows of a block needs these rows of
//     | row i                                            |   pixels. For each next i one more row enters the ring and
//     |   ...                                            |   the first one leaves. Its bulk copy began `ahead` rows
//     | row i + rows() - 1                               |   before. Zeros stand for pixels outside the image.
//     +--------------------------------------------------+
//     | i + rows() .. i + rows() + ahead - 1: in flight  |   A lane computes one channel of tx x ty outputs. It holds
//     +--------------------------------------------------+   row i of its window in registers, and adds every pixel
//                                                            that it reads to all outputs over it.
//
// Shared loads per output and window row: ((tx + kw - 1) ty + kw) / (tx ty), for kw multiply-adds.
#pragma once

#include "core/activation.h"
#include "core/cuda/tma.cuh"
#include "kernels/depthwise/channels_rows/params.h"

namespace torch_conv::depthwise {

template <typename T, typename W, ChannelsRows s, Activation kind>
__global__ void __launch_bounds__(s.threads(), s.resident)
    depthwise_channels_rows(const __grid_constant__ ChannelsRowsArgs a, const __grid_constant__ TensorMap map) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr int kSize = int(sizeof(T)), kRowBytes = s.row_bytes(kSize), kRowTaps = s.kw * s.lanes;
  constexpr int kColumns = (s.tx - 1) * s.stride_x + s.kw, kTapsEach = (kRowTaps + s.threads() - 1) / s.threads();
  constexpr int kBoxRowBytes = s.columns() * s.lanes * kSize;
  extern __shared__ __align__(128) unsigned char channels_ring[];
  float* const taps = reinterpret_cast<float*>(channels_ring + s.taps_at(kSize));
  uint64_t* const barriers = reinterpret_cast<uint64_t*>(channels_ring + s.barriers_at(kSize));

  const unsigned after_chunks = a.chunks.divide(blockIdx.x), after_x = a.blocks_x.divide(after_chunks);
  const int chunk = blockIdx.x - after_chunks * a.chunks.divisor, n = a.blocks_y.divide(after_x);
  const int x_block = (after_chunks - after_x * a.blocks_x.divisor) * (s.threads_x * s.tx),
            y_block = (after_x - n * a.blocks_y.divisor) * (s.threads_y * s.ty);
  const int c_block = chunk * s.lanes;
  const int last = s.rows() + a.kh - 1;  // rows in all
  auto load_row = [&](int r, uint64_t* barrier) {
    tma::load_box(channels_ring + r % s.ring_rows() * kRowBytes, &map, barrier, c_block, x_block * s.stride_x - a.pad_x,
                  y_block * s.stride_y - a.pad_y + r, n);
  };
  auto load_ahead = [&](int r) {
    uint64_t* const barrier = barriers + 1 + (r - s.rows()) % s.barriers();
    tma::barrier_expect(barrier, kBoxRowBytes);
    load_row(r, barrier);
  };
  if (threadIdx.x == 0) {
#pragma unroll 1
    for (int i = 0; i <= s.barriers(); ++i) tma::barrier_init(&barriers[i]);
    tma::barrier_expect(&barriers[0], s.rows() * kBoxRowBytes);
#pragma unroll 1
    for (int r = 0; r < s.rows(); ++r) load_row(r, &barriers[0]);
#pragma unroll 1
    for (int r = s.rows(); r < min(last, s.ring_rows()); ++r) load_ahead(r);
  }

  const int lane = threadIdx.x % s.lanes, tile_at = threadIdx.x / s.lanes;
  const int thread_x = tile_at % s.threads_x, thread_y = tile_at / s.threads_x, c = c_block + lane;
  const int x0 = x_block + thread_x * s.tx, y0 = y_block + thread_y * s.ty;

  // The block brings a row of its channels' windows while it computes with the one before.
  const W* const windows = static_cast<const W*>(a.weight);
  float next_taps[kTapsEach];
  auto fetch = [&](int i) {
#pragma unroll
    for (int m = 0; m < kTapsEach; ++m) {
      const int t = int(threadIdx.x) + m * s.threads(), channel = min(c_block + t / s.kw, a.c - 1);
      next_taps[m] = t < kRowTaps ? to_acc<float>(windows[(int64_t(channel) * a.kh + i) * s.kw + t % s.kw]) : 0.f;
    }
  };
  auto keep = [&](int i) {
#pragma unroll
    for (int m = 0; m < kTapsEach; ++m) {
      const int t = int(threadIdx.x) + m * s.threads();
      if (t < kRowTaps) taps[(i % 2 * s.kw + t % s.kw) * s.taps_pitch() + t / s.kw] = next_taps[m];
    }
  };
  fetch(0);
  keep(0);
  const float bias = a.bias ? to_acc<float>(static_cast<const W*>(a.bias)[min(c, a.c - 1)]) : 0.f;
  __syncthreads();
  tma::barrier_wait(&barriers[0], 0);

  const unsigned char* const from = channels_ring + (thread_x * (s.tx * s.stride_x) * s.lanes + lane) * kSize;
  int first = thread_y * (s.ty * s.stride_y);  // of the ring's rows: where this thread's outputs begin
  float sum[s.ty][s.tx] = {};
#pragma unroll 1
  for (int i = 0; i < a.kh; ++i) {
    if (i > 0) tma::barrier_wait(&barriers[1 + (i - 1) % s.barriers()], (i - 1) / s.barriers() % 2);
    if (i + 1 < a.kh) fetch(i + 1);
    float tap[s.kw];
#pragma unroll
    for (int j = 0; j < s.kw; ++j) tap[j] = taps[(i % 2 * s.kw + j) * s.taps_pitch() + lane];
#pragma unroll
    for (int o = 0; o < s.ty; ++o) {
      int slot = first + o * s.stride_y;
      if (slot >= s.ring_rows()) slot -= s.ring_rows();
      const unsigned char* const row = from + slot * kRowBytes;
#pragma unroll
      for (int p = 0; p < kColumns; ++p) {
        const float value = to_acc<float>(*reinterpret_cast<const T*>(row + p * s.lanes * kSize));
#pragma unroll
        for (int q = 0; q < s.tx; ++q) {
          const int j = p - q * s.stride_x;
          if (j >= 0 && j < s.kw) sum[o][q] = fmaf(tap[j], value, sum[o][q]);
        }
      }
    }
    if (i + 1 < a.kh) keep(i + 1);
    __syncthreads();
    if (threadIdx.x == 0 && s.ring_rows() + i < last) load_ahead(s.ring_rows() + i);
    if (++first == s.ring_rows()) first = 0;
  }

  T* const to = static_cast<T*>(a.out) + n * a.out_n + y0 * a.out_h + x0 * a.out_w + c;
  const int rest_x = c < a.c ? a.w_out - x0 : 0;
#pragma unroll
  for (int o = 0; o < s.ty; ++o)
#pragma unroll
    for (int q = 0; q < s.tx; ++q)
      if (o < a.h_out - y0 && q < rest_x)
        to[o * a.out_h + q * a.out_w] = from_acc<T>(activated<kind>(sum[o][q] + bias));
#endif
}

}  // namespace torch_conv::depthwise
