// The arguments of conv1d, conv2d and conv3d: names turned into values, and refusals.
#pragma once

#include "dispatch/conv/by_torch.h"

namespace torch_conv {

Border padding_border(const char* op, const std::string& mode);
Activation activation_of(const char* op, const std::optional<std::string>& name);

void check_conv(const char* op, const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                const ConvOptions& o, int axes);

}  // namespace torch_conv
