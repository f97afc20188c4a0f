// ROWS: windows along rows of any alignment; a lane computes 16 bytes of a row, with sums in registers.
//
// clang-format off
//     input row    . . . x x x x x x x x x x x x x x x x . . .     '.' neighbouring rows or nothing: zeros
//     16 bytes   |       |       |       |       |       |         aligned loads of the footprint
//                      <----- span ----->                          footprint of V outputs, `shift` elements in
//     output row           | o o o o |                             one aligned store; single elements at a row's ends
// clang-format on
//
// The alignment of the output's memory cuts vectors, whatever the length of a row. Rows that begin inside a vector
// share it, and each stores its own part. The footprint begins `shift` elements after an aligned address of the input.
// `shift` is a constant if the lengths of the rows make it the same for all. Else a lane computes it and moves its
// words (kRowsFunnel), or branches to the sums of that shift, where most warps have one row (kRowsBranch). Lanes of one
// warp may have several rows. A row has `vectors` parts, and a lane has one vector in each.
//
// Device memory an output: 1 read, 1 write; L1 serves the halos. 2 K flops. Instructions for 16 bytes of outputs,
// float, K 3: 3 loads, 1 store, 12 multiply-adds, 4 additions of the bias, about 50 others.
#pragma once

#include "core/activation.h"
#include "kernels/depthwise/rows/params.h"
#include "kernels/depthwise/shared/packed.cuh"

namespace torch_conv::depthwise {

template <typename T, typename W, RowsPolicy shape, Activation kind>
__global__ void __launch_bounds__(128) depthwise_rows(const __grid_constant__ RowsArgs a) {
  using A = acc_t<T>;
  constexpr int K = shape.k, kStride = shape.stride, kDilation = shape.dilation, kShift = shape.shift;
  constexpr int kVectors = shape.vectors, V = 16 / int(sizeof(T));
  constexpr int kSpan = (V - 1) * kStride + (K - 1) * kDilation + 1;
  constexpr int kLoads = ((kShift < 0 ? V - 1 : kShift) + kSpan + V - 1) / V;

  const uint32_t lane = blockIdx.x * 128 + threadIdx.x;
  if (lane >= a.lanes) return;
  const uint32_t row = a.slots.divide(lane), slot = lane - row * a.slots.divisor;
  const uint32_t n = a.channels.divide(row), c = row - n * a.channels.divisor;
  const int64_t in_row = n * a.in_stride_n + a.multiplier.divide(c) * a.in_stride_c;
  const T* const in = static_cast<const T*>(a.in) + in_row;
  T* const out = static_cast<T*>(a.out) + (n * a.out_stride_n + c * a.out_stride_c);
  const int phase = int(reinterpret_cast<uintptr_t>(out) / sizeof(T)) & (V - 1);

  // Positions of the lane's vectors in the row: x of the first output, `at` of the first element that is loaded.
  int x[kVectors], at[kVectors], shift = kShift < 0 ? 0 : kShift;
  uint32_t words[kVectors][4 * kLoads];
  bool readable[kVectors];
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const int vector = slot + j * a.slots.divisor;
    x[j] = vector * V - phase;
    const int first = x[j] * kStride - a.pad;
    if constexpr (kShift < 0) shift = (int(reinterpret_cast<uintptr_t>(in) / sizeof(T)) + first) & (V - 1);
    at[j] = first - shift;
    const int64_t offset = in_row + at[j];
    readable[j] = x[j] < a.out_w && offset >= a.first && offset + kLoads * V <= a.last;
#pragma unroll
    for (int b = 0; b < kLoads; ++b) {
      const bool touched = kShift >= 0 || b * V < shift + kSpan;
      const uint4 word = readable[j] && touched ? *reinterpret_cast<const uint4*>(in + at[j] + b * V) : uint4{};
      words[j][4 * b] = word.x, words[j][4 * b + 1] = word.y, words[j][4 * b + 2] = word.z,
                   words[j][4 * b + 3] = word.w;
    }
  }

  // Few taps stay in registers; more are read as they are used.
  constexpr bool kKept = K <= 16;
  const W* const weight = static_cast<const W*>(a.weight) + int64_t(c) * K;
  A taps[kKept ? K : 1];
  if constexpr (kKept)
#pragma unroll
    for (int i = 0; i < K; ++i) taps[i] = to_acc<A>(weight[i]);
  const A bias = a.bias ? to_acc<A>(static_cast<const W*>(a.bias)[c]) : A(0);

#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    if (x[j] >= a.out_w) continue;
    if (at[j] < 0 || at[j] + kLoads * V > a.in_w) {
      if (readable[j]) packed::mask<T>(words[j], at[j], a.in_w);
      else packed::read_elements<T>(words[j], in, at[j], a.in_w);
    }
    if constexpr (kShift == kRowsFunnel) packed::funnel<T>(words[j], shift);
  }

  A sum[kVectors][V] = {};
  const auto add_up = [&](auto begin) {
#pragma unroll
    for (int i = 0; i < K; ++i) {
      const A tap = kKept ? taps[kKept ? i : 0] : to_acc<A>(weight[i]);
#pragma unroll
      for (int j = 0; j < kVectors; ++j)
#pragma unroll
        for (int e = 0; e < V; ++e)
          sum[j][e] = fma(tap, packed::element<T>(words[j], begin.value + e * kStride + i * kDilation), sum[j][e]);
    }
  };
  if constexpr (kShift == kRowsBranch) packed::with_constant<0, V>(shift, add_up);
  else add_up(std::integral_constant < int, kShift<0 ? 0 : kShift>{});

#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
#pragma unroll
    for (int e = 0; e < V; ++e) sum[j][e] = activated<kind>(sum[j][e] + bias);
    const auto pack = packed::round_all<T>(sum[j]);
    T* const to = out + x[j];
    const bool is_full = x[j] >= 0 && x[j] + V <= a.out_w;
    store_pack_if(is_full, to, pack);
    if (!is_full) {
#pragma unroll
      for (int e = 0; e < V; ++e)
        if (unsigned(x[j] + e) < unsigned(a.out_w)) to[e] = pack.v[e];
    }
  }
}

}  // namespace torch_conv::depthwise
