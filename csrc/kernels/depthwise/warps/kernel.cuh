// WARPS: rows of planes in registers; lanes exchange the columns of their neighbours by shuffles.
//
//     lane           0       1       2              a strip: 8, 16 or 32 lanes, a few rows of outputs
//     input row   x x x x|x x x x|x x x x|          one vector a lane; all rows are loaded before the first sum
//                 .     L|L . . .|R                 the neighbour lanes have the left and right columns
//     outputs      o   o   o   o   o   o            vector / stride a lane
//
// A row of more vectors than a warp has lanes is several strips, whose first and last lane then only read.
//
// Device memory per output: stride^2 reads (and k - stride rows a strip, from L2), 1 write; 2 k^2 flops. A sum is one
// chain in the order of the window's taps.
#pragma once

#include "core/activation.h"
#include "kernels/depthwise/shared/packed.cuh"
#include "kernels/depthwise/warps/params.h"

namespace torch_conv::depthwise {

template <typename T, typename W, WarpsPolicy shape, Activation kind>
__global__ void __launch_bounds__(128) depthwise_warps(const __grid_constant__ WarpsArgs a) {
  constexpr int K = shape.k, S = shape.stride, V = shape.vector, kLanes = shape.lanes, kRows = shape.rows;
  constexpr bool kHalo = shape.halo;
  constexpr int E = 4 / int(sizeof(T)), kWords = V / E, O = shape.outputs(), kInputRows = shape.input_rows();
  constexpr int kLeft = (shape.left() + E - 1) / E, kRight = (shape.right() + E - 1) / E;  // words

  const unsigned strip = blockIdx.x * (128 / kLanes) + threadIdx.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  const unsigned row_of_strips = a.strips_x.divide(strip), plane = a.strips_y.divide(row_of_strips);
  const unsigned n = a.channels.divide(plane), c = plane - n * a.channels.divisor;
  const int vector = int(strip - row_of_strips * a.strips_x.divisor) * a.each + lane - int(kHalo);
  const int y = int(row_of_strips - plane * a.strips_y.divisor) * kRows, top = y * S - a.pad_y;
  const bool reads = strip < a.strips && unsigned(vector) < unsigned(a.vectors) && lane < a.each + 2 * int(kHalo);
  const bool writes = reads && lane >= int(kHalo) && lane < a.each + int(kHalo);

  uint32_t words[kInputRows][kLeft + kWords + kRight];
  const T* const in = static_cast<const T*>(a.in) + n * a.in_n + a.multiplier.divide(c) * a.in_c + vector * V;
#pragma unroll
  for (int r = 0; r < kInputRows; ++r) {
    Pack<V, T> pack{};
    if (reads && unsigned(top + r) < unsigned(a.in_rows)) pack = load_pack<V>(in + (top + r) * a.in_h);
    memcpy(words[r] + kLeft, &pack, sizeof(pack));
  }
  const W* const weight = static_cast<const W*>(a.weight) + int64_t(c) * (K * K);
  float taps[K * K], bias = 0.f;
#pragma unroll
  for (int i = 0; i < K * K; ++i) taps[i] = reads ? to_acc<float>(weight[i]) : 0.f;
  if (a.bias && reads) bias = to_acc<float>(static_cast<const W*>(a.bias)[c]);

#pragma unroll
  for (int r = 0; r < kInputRows; ++r) {
#pragma unroll
    for (int i = 0; i < kLeft; ++i) {
      const uint32_t word = __shfl_up_sync(~0u, words[r][kWords + i], 1, kLanes);
      words[r][i] = lane == 0 ? 0 : word;
    }
#pragma unroll
    for (int i = 0; i < kRight; ++i) {
      const uint32_t word = __shfl_down_sync(~0u, words[r][kLeft + i], 1, kLanes);
      words[r][kLeft + kWords + i] = lane == kLanes - 1 ? 0 : word;
    }
  }
  T* const out = static_cast<T*>(a.out) + n * a.out_n + c * a.out_c + vector * O;
#pragma unroll
  for (int o = 0; o < kRows; ++o) {
    float sum[O] = {};
#pragma unroll
    for (int i = 0; i < K; ++i)
#pragma unroll
      for (int j = 0; j < K; ++j)
#pragma unroll
        for (int p = 0; p < O; ++p)
          sum[p] =
              fmaf(taps[i * K + j], packed::element<T>(words[o * S + i], kLeft * E - shape.left() + p * S + j), sum[p]);
#pragma unroll
    for (int p = 0; p < O; ++p) sum[p] = activated<kind>(sum[p] + bias);
    store_pack_if(writes && y + o < a.out_rows, out + int64_t(y + o) * a.out_h, packed::round_all<T>(sum));
  }
}

}  // namespace torch_conv::depthwise
