// GENERAL: any width, dtype, layout, states and sequences.
//
//     x         b b b|x x x x x x . .
//     outputs         0 1 2 3
//     after         . . . . . . [x x x]
//
// A thread computes four neighbouring outputs of a row, one tap after the other. Lanes follow the innermost axis in
// memory, length or channels. One thread more for each of the last k - 1 inputs copies it to `after`. Each multiply-add
// takes 1 load, from L1 where windows overlap; 2 k flops an output.
#pragma once

#include "kernels/causal/general/params.h"
#include "kernels/causal/shared/finish.cuh"

namespace torch_conv::causal {

template <typename T, typename W>
__global__ void __launch_bounds__(256) causal_general(const __grid_constant__ GeneralArgs a) {
  using A = acc_t<T>;
  const CausalConv& p = a.p;
  int64_t index = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= a.threads) {
    index -= a.threads;
    if (index >= a.all - a.threads) return;
    const int64_t j = index % (p.k - 1), c = index / (p.k - 1) % p.c, n = index / (p.k - 1) / p.c;
    *at<T>(p.after, n, c, j) = element<T>(p, n, c, p.l - (p.k - 1) + j);
    return;
  }
  int64_t c, t;
  if (a.channels_inner) {
    c = index % p.c, index /= p.c;
    t = index % a.fours * 4, index /= a.fours;
  } else {
    t = index % a.fours * 4, index /= a.fours;
    c = index % p.c, index /= p.c;
  }
  const int64_t n = index;
  const W* weight = static_cast<const W*>(p.weight) + c * p.k;
  const int32_t* sequences = p.sequences ? p.sequences + n * p.l : nullptr;

  int32_t own[4] = {};
  if (sequences)
    for (int q = 0; q < 4; ++q) own[q] = t + q < p.l ? sequences[t + q] : -1;
  A sum[4] = {};
  for (int64_t j = 0; j < p.k; ++j) {
    const A tap = to_acc<A>(weight[j]);
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int64_t from = t + q + j - (p.k - 1);
      const bool counts = from < p.l && (!sequences || (from >= 0 && sequences[from] == own[q]));
      sum[q] = fma(tap, counts ? to_acc<A>(element<T>(p, n, c, from)) : A(0), sum[q]);
    }
  }

  const A bias = p.bias ? to_acc<A>(static_cast<const W*>(p.bias)[c]) : A(0);
  for (int q = 0; q < 4 && t + q < p.l; ++q)
    *at<T>(p.out, n, c, t + q) =
        own[q] < 0 ? zero<T>() : from_acc<T>(p.silu ? with_bias<T, true>(sum[q], bias) : sum[q] + bias);
}

}  // namespace torch_conv::causal
