// Convolutions by our kernels.
#pragma once

#include "dispatch/dispatch.h"

namespace torch_conv {

// Checked tensors and options. Signals are images of height 1; the weight has `axes` spatial dimensions.
struct ConvArguments {
  int axes;  // 1, 2 or 3
  ImageView in;
  Tensor result;  // not empty
  const Tensor& weight;
  const std::optional<Tensor>& bias;
  Placement place;
  int64_t groups;
  bool depthwise;  // the depthwise kernel family may serve it
  Sums sums;
  Activation activation;
};

// The depthwise kernel family computes each call that it serves, and direct sums compute the others.
void run_convolution(Call& call, const Target& target, const ConvArguments& conv);

}  // namespace torch_conv
