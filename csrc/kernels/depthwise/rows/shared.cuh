// ROWS with more taps: a warp loads a piece of a row into shared memory, and each lane computes P neighbouring outputs.
//
// clang-format off
//     input row   . . x x x x x x x x x x x x x x x x x x x x . .    '.' neighbouring rows or nothing: zeros
//     warp         |<----------- 32 P + K - 1 ------------->|        lanes load neighbouring elements, of any alignment
//     lane 0       |<- P + K - 1 ->|                                 four at a time, in the order of the taps
//     lane 1            |<- P + K - 1 ->|
//     output row          | P | P | P | ... | P |                    stored through shared memory, as it was loaded
// clang-format on
//
// Shared memory holds the accumulation type. A lane has P numbers. If P is more than 4, 16 bytes of padding put
// the vectors of the lanes into different banks. A warp synchronises with no other: each has its own memory.
//
// Device memory an output: 1 read, 1 write, K - 1 elements more a warp. Per 32 P outputs a lane issues P K
// multiply-adds, (P + K) / 4 + K / 4 loads of 16 bytes and about 9 P other instructions.
#pragma once

#include "core/activation.h"
#include "core/cuda/device.cuh"
#include "kernels/depthwise/rows/params.h"

namespace torch_conv::depthwise {

template <typename T, typename W, int K, int P, Activation kind>
__global__ void __launch_bounds__(128) depthwise_rows_shared(const __grid_constant__ RowsArgs a) {
  using A = acc_t<T>;
  constexpr int F = 16 / int(sizeof(A));               // numbers in 16 bytes
  constexpr int kPitch = P == F ? P : P + F;           // of a lane's numbers
  constexpr int kCount = 32 * P + round_up(K - 1, F);  // elements of the footprint, in whole vectors of 16 bytes
  constexpr int kTapsAt = ceil_div(kCount, P) * kPitch;
  constexpr int kReads = (kCount + 31) / 32;
  __shared__ __align__(16) A shared[4][kTapsAt + round_up(K, F)];
  A* const warp_shared = shared[threadIdx.x / 32];

  const uint32_t warp = blockIdx.x * 4 + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (warp * 32 >= a.lanes) return;
  const uint32_t row = a.slots.divide(warp), piece = warp - row * a.slots.divisor;
  const uint32_t n = a.channels.divide(row), c = row - n * a.channels.divisor;
  const T* const in = static_cast<const T*>(a.in) + (n * a.in_stride_n + a.multiplier.divide(c) * a.in_stride_c);
  const W* const weight = static_cast<const W*>(a.weight) + int64_t(c) * K;
  const int x = piece * (32 * P);

  // The address of element `lane` of 32 elements, which belong to whole lanes.
  static_assert(32 % P == 0);
  constexpr int kStep = 32 / P * kPitch;
  A* const spread = warp_shared + (lane / P * kPitch + lane % P);

  T read[kReads];
  const int first = x - a.pad;
  if (first >= 0 && first + 32 * kReads <= a.in_w) {
#pragma unroll
    for (int i = 0; i < kReads; ++i) read[i] = in[first + lane + 32 * i];
  } else {
#pragma unroll
    for (int i = 0; i < kReads; ++i) {
      const int at = first + lane + 32 * i;
      read[i] = unsigned(at) < unsigned(a.in_w) ? in[at] : T{};
    }
  }
  for (int i = lane; i < K; i += 32) warp_shared[kTapsAt + i] = to_acc<A>(weight[i]);
  const A bias = a.bias ? to_acc<A>(static_cast<const W*>(a.bias)[c]) : A(0);
#pragma unroll
  for (int i = 0; i < kReads; ++i) {
    if (i + 1 < kReads || 32 * i + lane < kCount) spread[i * kStep] = to_acc<A>(read[i]);
  }
  __syncwarp();

  A sum[P] = {};
  {
    A value[round_up(P + K - 1, F)];
    const A* const from = warp_shared + lane * kPitch;
#pragma unroll
    for (int i = 0; i < round_up(P + K - 1, F); i += F) {
      const auto pack = load_pack<F>(from + i / P * kPitch + i % P);
#pragma unroll
      for (int e = 0; e < F; ++e) value[i + e] = pack.v[e];
    }
#pragma unroll
    for (int i = 0; i < K; i += F) {
      const auto taps = load_pack<F>(warp_shared + kTapsAt + i);
#pragma unroll
      for (int j = 0; j < F && i + j < K; ++j)
#pragma unroll
        for (int e = 0; e < P; ++e) sum[e] = fma(taps.v[j], value[i + j + e], sum[e]);
    }
  }
  __syncwarp();
#pragma unroll
  for (int e = 0; e < P; e += F) {
    Pack<F, A> pack;
#pragma unroll
    for (int i = 0; i < F; ++i) pack.v[i] = activated<kind>(sum[e + i] + bias);
    uint4 word;
    memcpy(&word, &pack, 16);
    *reinterpret_cast<uint4*>(warp_shared + lane * kPitch + e) = word;
  }
  __syncwarp();
  T* const out = static_cast<T*>(a.out) + (n * a.out_stride_n + c * a.out_stride_c);
  if (x + 32 * P <= a.out_w) {
#pragma unroll
    for (int i = 0; i < P; ++i) out[x + lane + 32 * i] = from_acc<T>(spread[i * kStep]);
  } else {
#pragma unroll
    for (int i = 0; i < P; ++i)
      if (x + lane + 32 * i < a.out_w) out[x + lane + 32 * i] = from_acc<T>(spread[i * kStep]);
  }
}

}  // namespace torch_conv::depthwise
