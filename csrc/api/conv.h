// What the operators of convolutions share.
#pragma once

#include "dispatch/conv_by_torch.h"

namespace torch_conv {

Activation activation_of(const char* op, const std::optional<std::string>& name);

// conv1d, conv2d and conv3d, by their number of axes.
Tensor conv(Call& call, int axes, const Tensor& input, Tensor weight, std::optional<Tensor> bias, ConvOptions o);

}  // namespace torch_conv
