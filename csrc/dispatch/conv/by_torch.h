// The options of a convolution, and convolutions that torch computes.
#pragma once

#include "dispatch/conv/router.h"
#include "tensors/call.h"

namespace torch_conv {

struct ConvOptions {
  Sizes stride;
  Sizes padding;                    // per axis; unused with `word`
  std::optional<std::string> word;  // padding='same' | 'valid'
  Sizes dilation;
  int64_t groups;
  std::string padding_mode;
  std::string algorithm;
  Activation activation = Activation::none;
};

// Of every spatial axis.
std::vector<Pads> all_pads(const char* op, const ConvOptions& o, const Tensor& weight);

// Has torch compute a convolution, or the part of it that the call is for, and records that in the call's graph.
// `call.footprint.by_torch` says why torch computes it.
Tensor hand_over(Call& call, const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                 const ConvOptions& o);

}  // namespace torch_conv
