// The options of a convolution, and convolutions that torch computes.
#pragma once

#include "dispatch/conv/router.h"
#include "graph/call.h"

namespace torch_conv {

struct ConvOptions {
  Sizes stride;
  Sizes padding;                            // per axis; unused with `padding_name`
  std::optional<std::string> padding_name;  // padding='same' | 'valid'
  Sizes dilation;
  int64_t groups;
  std::string padding_mode;
  std::string algorithm;
  Activation activation = Activation::none;
};

// The pads of every spatial axis.
std::vector<Pads> all_pads(const char* op, const ConvOptions& o, const Tensor& weight);

// Calls torch for a convolution or for the call's part of it, and records the call of torch in the graph. The reason is
// `call.footprint.by_torch`.
Tensor hand_over(Call& call, const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                 const ConvOptions& o);

}  // namespace torch_conv
