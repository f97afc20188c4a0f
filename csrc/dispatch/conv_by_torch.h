// What a convolution is asked for besides its tensors, and what torch computes of it.
#pragma once

#include "dispatch/conv_router.h"
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

Pads pads_of(const char* op, const ConvOptions& o, int axis, int64_t k);
std::vector<Pads> all_pads(const char* op, const ConvOptions& o, const Tensor& weight);

// What torch serves, by its own operators.
Tensor by_torch(const char* op, const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                const ConvOptions& o);
// The same for a part of the outputs along one axis.
Tensor part_by_torch(Call& call, const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                     const ConvOptions& o);

}  // namespace torch_conv
