// UPDATE: a step of a generation, or a few, in one launch; x moves into the state.
//
//   state  [s s s s s s]  x [x x]      A thread has one channel of one sample. It loads the first window's elements and
//                 [- - -]    0         the first elements that move before it uses any: one trip to memory, not one
//                   [- -     - 1]      a tap.
//   then   [s s s s x x]               In a ring nothing moves: x overwrites the oldest elements.
//
// 2 k flops an output.
#pragma once

#include "kernels/causal/shared/finish.cuh"

namespace torch_conv::causal {

constexpr int kMoved = 8;  // elements that move at a time; states of up to 8 elements move in one trip

// A thread's channel of a sample.
template <typename T>
struct Updated {
  const CausalUpdate& p;
  int64_t c;
  const T* x;
  T *out, *state;
  int64_t next = 0;       // where x goes in a ring
  bool computes = false;  // there is a channel, and it has a state; the output of padding is 0

  __device__ __forceinline__ explicit Updated(const UpdateArgs& a) : p(a.p) {
    const unsigned n = a.across.divide(blockIdx.x);
    c = int64_t(blockIdx.x - n * a.across.divisor) * 128 + threadIdx.x;
    if (c >= p.c) return;
    x = at<const T>(p.x, n, c, 0), out = at<T>(p.out, n, c, 0);
    const int64_t row = p.rows ? int64_t(p.rows[n]) : int64_t(n);
    if (row < 0 || row >= p.states) {
      for (int64_t t = 0; t < p.l; ++t) out[t * p.out.stride_l] = zero<T>();
      return;
    }
    state = at<T>(p.state, row, c, 0);
    if (p.used && p.state_l > 0) {
      next = p.used[n] % p.state_l;
      next += next < 0 ? p.state_l : 0;
    }
    computes = true;
  }

  // Element t of state and x, one behind the other: x starts at 0.
  __device__ __forceinline__ T stood(int64_t t) const {
    if (t >= 0) return x[t * p.x.stride_l];
    const int64_t from = (p.used ? next : p.state_l) + t;
    return state[(from < 0 ? from + p.state_l : from) * p.state.stride_l];
  }
};

template <typename T, typename W, int K, bool silu, bool ring>
__global__ void __launch_bounds__(128) causal_update(const __grid_constant__ UpdateArgs a) {
  using A = acc_t<T>;
  const CausalUpdate& p = a.p;
  const Updated<T> u(a);
  if (!u.computes) return;
  const T* x = u.x;
  T *out = u.out, *state = u.state;
  const int64_t size = p.state_l, step = p.state.stride_l;
  const W* weight = static_cast<const W*>(p.weight) + u.c * p.k;
  int64_t next = u.next;

  T moved[kMoved];
  T seen[K];
#pragma unroll
  for (int k = 0; k < K - 1; ++k) seen[k] = u.stood(k - (K - 1));
  if constexpr (!ring) {
#pragma unroll
    for (int i = 0; i < kMoved; ++i)
      if (i + p.l < size) moved[i] = state[(i + p.l) * step];
  }
  T now = x[0];
  A tap[K];
#pragma unroll
  for (int k = 0; k < K; ++k) tap[k] = to_acc<A>(weight[k]);
  const A bias = p.bias ? to_acc<A>(static_cast<const W*>(p.bias)[u.c]) : A(0);
  if constexpr (!ring) {
#pragma unroll
    for (int i = 0; i < kMoved; ++i)
      if (i + p.l < size) state[i * step] = moved[i];
    for (int64_t i = kMoved; i + p.l < size; ++i) state[i * step] = state[(i + p.l) * step];
  }
  A value[K];
#pragma unroll
  for (int k = 0; k < K - 1; ++k) value[k] = to_acc<A>(seen[k]);
  for (int64_t t = 0; t < p.l; ++t) {
    if (t > 0) now = x[t * p.x.stride_l];
    value[K - 1] = to_acc<A>(now);
    A sum = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) sum = fma(tap[k], value[k], sum);
    out[t * p.out.stride_l] = from_acc<T>(with_bias<T, silu>(sum, bias));
#pragma unroll
    for (int k = 0; k < K - 1; ++k) value[k] = value[k + 1];
    if constexpr (ring) {
      if (size > 0) state[next * step] = now;
      next = next + 1 >= size ? 0 : next + 1;
    } else if (size - p.l + t >= 0) {
      state[(size - p.l + t) * step] = now;
    }
  }
}

// GENERAL: the same of any width, tap by tap.
template <typename T, typename W>
__global__ void __launch_bounds__(128) causal_update_general(const __grid_constant__ UpdateArgs a) {
  using A = acc_t<T>;
  const CausalUpdate& p = a.p;
  const Updated<T> u(a);
  if (!u.computes) return;
  const W* weight = static_cast<const W*>(p.weight) + u.c * p.k;
  const A bias = p.bias ? to_acc<A>(static_cast<const W*>(p.bias)[u.c]) : A(0);
  for (int64_t t = 0; t < p.l; ++t) {
    A sum = 0;
    for (int64_t k = 0; k < p.k; ++k) sum = fma(to_acc<A>(weight[k]), to_acc<A>(u.stood(t + k - (p.k - 1))), sum);
    u.out[t * p.out.stride_l] = from_acc<T>(p.silu ? with_bias<T, true>(sum, bias) : sum + bias);
  }
  const int64_t size = p.state_l, step = p.state.stride_l;
  if (p.used) {
    for (int64_t t = 0; t < p.l && size > 0; ++t) u.state[(u.next + t) % size * step] = u.x[t * p.x.stride_l];
  } else {
    for (int64_t i = 0; i < size; ++i) u.state[i * step] = u.stood(i + p.l - size);
  }
}

}  // namespace torch_conv::causal
