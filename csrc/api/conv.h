// conv1d, conv2d and conv3d, and the checks of their arguments.
#pragma once

#include "dispatch/conv/by_torch.h"

namespace torch_conv {

Tensor conv(Call& call, int axes, const Tensor& input, Tensor weight, std::optional<Tensor> bias, ConvOptions o);

void check_conv(const char* op, const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                const ConvOptions& o, int axes);
Border padding_border(const char* op, const std::string& mode);
Activation activation_of(const char* op, const std::optional<std::string>& name);

}  // namespace torch_conv
