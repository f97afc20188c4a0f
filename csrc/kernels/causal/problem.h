// The problems of this kernel family: causal depthwise convolutions of sequences, plain numbers.
#pragma once

#include "core/problem.h"

namespace torch_conv {

// A tensor (B, D, L) in place; strides in elements.
struct Signal {
  void* data;
  int64_t stride_n, stride_c, stride_l;
};

// out[n, c, t] = silu?(bias[c] + sum over j = 0 .. k-1 of weight[c][j] * x[n, c, t - (k - 1) + j]). The sum is one
// chain of fused multiply-adds that starts at 0 and takes the oldest tap first.
//
//     before (k - 1)   x (l)                      after (k - 1): the last inputs, for the next part of the sequence
//     [b b b]          [x x x x x x x x x x x]    [x x x]
//            t = 0 sees b b b x0
struct CausalConv {
  Dtype dtype, weights;  // of x, out, before and after; of weight and bias
  int64_t n, c, l, k;
  Signal x, out;
  Signal before, after;       // null data: zeros before the start; no last inputs are written
  const void *weight, *bias;  // dense (c, k); one number a channel, or null
  const int32_t* sequences;   // dense (n, l), or null. A tap counts if its number equals the output's. Below 0 the
                              // output is 0
  bool silu;
};

// One step of a generation, or a few. The last k - 1 elements of `state` precede x, and the call moves x into `state`.
// With `used` (numbers of elements so far) `state` is a ring. Its next position is used[n] % state_l.
struct CausalUpdate {
  Dtype dtype, weights;  // of x, out and state; of weight and bias
  int64_t n, c, l, k;
  int64_t states, state_l;  // rows of `state`, and elements of one
  Signal x, out, state;
  const void *weight, *bias;  // as above
  const int32_t* used;        // one a sample, or null
  const int32_t* rows;        // each sample's row of `state`, or null: row n for sample n. A row that `state` lacks is
                              // padding: the output is 0
  bool silu;
};

template <typename F>
void each_address(CausalConv& p, const F& f) {
  f(p.x.data), f(p.out.data), f(p.before.data), f(p.after.data), f(p.weight), f(p.bias), f(p.sequences);
}
template <typename F>
void each_address(CausalUpdate& p, const F& f) {
  f(p.x.data), f(p.out.data), f(p.state.data), f(p.weight), f(p.bias), f(p.used), f(p.rows);
}

}  // namespace torch_conv
