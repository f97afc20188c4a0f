// The gradient of a depthwise convolution in its weight and bias: the kernel family's problem. CUDA only:
// on the CPU the operator calls torch.
#pragma once

#include "core/problem.h"

namespace torch_conv {

// With zeros outside the image:
//
//     weight[c][i, j] = sum over n, y, x of grad[n, c, y, x] * in[n, c / multiplier, y * stride + i - pad, ...]
//     bias[c]         = sum over n, y, x of grad[n, c, y, x]
//
// `weight` and `bias` are dense and have the images' dtype; sums are float32.
struct WeightGradient {
  Image in, grad;
  void *weight, *bias;
  int64_t kh, kw;
  Placement place;
  int64_t multiplier() const { return grad.c / in.c; }
};

template <typename F>
void each_address(WeightGradient& p, const F& f) {
  f(p.in.data), f(p.grad.data), f(p.weight), f(p.bias);
}

}  // namespace torch_conv

namespace torch_conv::weight_gradient {

// True if channels are innermost in memory, false if the pixels of a row are.
inline bool channels_innermost(const Image& x) {
  return x.stride_c == 1 && x.c > 1 && (x.w > 1 ? x.stride_w : x.stride_h) != 1;
}

}  // namespace torch_conv::weight_gradient
