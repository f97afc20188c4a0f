// CHANNELS: small windows over images whose channels are interleaved, at stride and dilation 1.
//
//          pixel x - 1       pixel x        pixel x + 1
//       +--------------+--------------+--------------+
//   y   | c0 .. N ..   | c0 .. N ..   | c0 .. N ..   |
//       +--------------+--------------+--------------+
//   y+1 |              |   outputs    |              |
//       +--------------+--------------+--------------+
//   y+2 |              |              |              |
//       +--------------+--------------+--------------+
//
// A thread owns a vector of N channels of a column of pixels: up to 16 bytes, or one value of unaligned channels. It
// streams down a strip of rows. The thread reads KW vectors of a row, adds these to the KH rows of outputs over the
// row, and stores the finished row. Loads run up to three rows ahead. Neighbouring threads own up to kChannelVectors
// vectors of a pixel, then vectors of the next pixel. L1 serves the vectors of other threads.
//
// Device memory per value: 1 read (rows between strips twice), 1 write; 2 KH KW flops.
#pragma once

#include "core/border.h"
#include "core/cuda/packed.cuh"
#include "core/cuda/unroll.cuh"
#include "kernels/direct2d/channels/params.h"

namespace torch_conv::direct2d {

// Resident blocks. Windows of each channel take more registers.
constexpr int channel_min_blocks(int taps, int bytes, int values, bool window_each) {
  if (values == 1) return taps <= 9 ? 9 : taps <= 25 ? 7 : 4;
  if (taps <= 9) return window_each && bytes != 2 ? 4 : 5;
  return window_each ? 2 : taps <= 25 ? 5 : 4;
}

template <typename T, int KH, int KW, int N, bool kWindowEach>
__global__ void __launch_bounds__(kChannelThreads, channel_min_blocks(KH* KW, sizeof(T), N, kWindowEach))
    direct2d_channels(const __grid_constant__ ChannelArgs a, const __grid_constant__ ParamTaps param_taps) {
  unsigned block = blockIdx.x;
  const unsigned plane = a.blocks.divide(block);
  block -= plane * a.blocks.divisor;
  const unsigned n = a.strips.divide(plane), strip = plane - n * a.strips.divisor;
  const unsigned vector = block * kChannelThreads + threadIdx.x;
  if (vector >= a.vectors) return;
  const unsigned pixel = a.group.divide(vector), chunk = a.columns.divide(pixel);
  const int x = int(pixel - chunk * a.columns.divisor), y0 = int(strip) * a.rows;
  const int c = N * int(vector - pixel * a.group.divisor + chunk * a.group.divisor), rows = min(a.rows, a.out_h - y0);
  const T* const in = static_cast<const T*>(a.in) + n * a.in_n + c;

  // With a window for each channel, tap i of channel e is tap[e * KH * KW + i]; else tap[i].
  float tap[KH * KW * (kWindowEach ? N : 1)];
  if constexpr (kWindowEach) {
#pragma unroll
    for (int e = 0; e < N; ++e)
#pragma unroll
      for (int i = 0; i < KH * KW; ++i)
        tap[e * KH * KW + i] = param_taps.first<float>()[n * a.taps_n + (c + e) * a.taps_c + i];
  } else {
    param_taps.read(tap, n * a.taps_n);
  }

  // Elements from a row's first to the columns under the window; -1 outside the image, where a.value replaces them.
  int column[KW];
  bool within = true;
#pragma unroll
  for (int j = 0; j < KW; ++j) {
    const int m = map_index(x + j - a.pad_x, a.in_w, a.border);
    within &= m >= 0;
    column[j] = m < 0 ? -1 : m * a.in_x;
  }
  const bool fits = x >= a.pad_x && x - a.pad_x + KW <= a.in_w;

  // Rows in flight; `row` is negative outside the image. 3x3, one NVIDIA H200, us, three rows ahead and one:
  //
  //     16x512x56x56                                    float32 60.7, 71.7
  //     16x64x224x224, a window for each channel        uint8 79, 103; float16 149, 134
  //
  constexpr int kAhead = KH == 3 && sizeof(T) != 2 ? 3 : 1;
  Pack<N, T> next[kAhead][KW];
  int row[kAhead];
  const int count = rows + KH - 1;
  const auto fetch = [&](int r, int slot) {
    if (r >= count) return;
    row[slot] = map_index(y0 + r - a.pad_y, a.in_h, a.border);
    const T* const from = in + max(row[slot], 0) * a.in_y;
#pragma unroll
    for (int j = 0; j < KW; ++j) next[slot][j] = load_pack<N>(from + max(column[j], 0));
  };
  T* to = static_cast<T*>(a.out) + n * a.out_n + y0 * a.out_y + x * a.out_x + c;
  float sum[KH][N];  // also of the rows above the strip, which the thread does not store
#pragma unroll
  for (int r = 0; r < kAhead; ++r) fetch(r, r);
#pragma unroll 1
  for (int first = 0; first < count; first += KH) {
    unroll<0, KH>([&](auto u) {
      constexpr int slot = decltype(u)::value % kAhead;
      const int r = first + u;
      if (r >= count) return;
      float value[KW][N];
#pragma unroll
      for (int j = 0; j < KW; ++j) widen_pack(next[slot][j], value[j]);
      if (!within || row[slot] < 0) {
#pragma unroll
        for (int j = 0; j < KW; ++j)
          if (row[slot] < 0 || column[j] < 0)
#pragma unroll
            for (int e = 0; e < N; ++e) value[j][e] = a.value;
      }
      fetch(r + kAhead, slot);
      // Input row r is row i of the window over output row r - i.
      unroll<0, KH>([&](auto i) {
        constexpr int o = (decltype(u)::value - decltype(i)::value + KH) % KH;
#pragma unroll
        for (int j = 0; j < KW; ++j)
#pragma unroll
          for (int e = 0; e < N; ++e)
            sum[o][e] =
                fma(tap[i * KW + j + (kWindowEach ? e * KH * KW : 0)], value[j][e], i == 0 && j == 0 ? 0.f : sum[o][e]);
      });
      constexpr int done = (decltype(u)::value + 1) % KH;
      const int y = y0 + r - (KH - 1), top = y - a.pad_y;
      if (a.border == Border::zero_output && !(fits && top >= 0 && top + KH <= a.in_h))
#pragma unroll
        for (int e = 0; e < N; ++e) sum[done][e] = 0;
      if constexpr (N > 1) store_pack_if(y >= y0, to, narrow_pack<T>(sum[done]));
      else if (y >= y0) *to = from_acc<T>(sum[done][0]);
      if (y >= y0) to += a.out_y;
    });
  }
}

}  // namespace torch_conv::direct2d
