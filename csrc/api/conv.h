// The operators of convolutions share this function.
#pragma once

#include "dispatch/conv/by_torch.h"

namespace torch_conv {

// conv1d, conv2d and conv3d, by their number of axes.
Tensor conv(Call& call, int axes, const Tensor& input, Tensor weight, std::optional<Tensor> bias, ConvOptions o);

}  // namespace torch_conv
