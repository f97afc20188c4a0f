// What this kernel family is asked to compute: how the sum of a depthwise convolution's outputs, each times a number,
// changes with its weight and its bias.
#pragma once

#include "core/problem.h"

namespace torch_conv {

// weight[c][i, j] = sum over n, y, x of grad[n, c, y, x] * in[n, c / multiplier, y * stride + i - pad, ...], zeros
// outside; bias[c] = sum over n, y, x of grad[n, c, y, x]. Both dense, in the images' dtype; sums are float32.
struct WeightGradient {
  Image in, grad;
  void *weight, *bias;
  int64_t kh, kw;
  Placement place;
  int64_t multiplier() const { return grad.c / in.c; }
};

// f(address) for every address of memory that a problem holds (graph/record_launch.h).
template <typename F>
void each_address(WeightGradient& p, const F& f) {
  f(p.in.data), f(p.grad.data), f(p.weight), f(p.bias);
}

}  // namespace torch_conv
