// The route of a convolution: our kernels, torch, or a decision of the operator when it runs. The operators call it for
// their tensors, the Python functions by the query `_conv_route`.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "tensors/torch_api.h"

namespace torch_conv {

// A number that torch.compile does not know. If one size is unknown, all are. An unknown option is above 1, because
// torch makes no symbol of 0 and 1.
constexpr int64_t kUnknown = -(int64_t(1) << 62);

inline bool any_unknown(const Sizes& sizes) { return std::find(sizes.begin(), sizes.end(), kUnknown) != sizes.end(); }

// The numbers of a convolution. A convolution in shards has the numbers of the whole image.
struct Convolution {
  enum Device { other = 0, cpu = 1, cuda = 2 } device;
  ScalarType dtype;
  Sizes size, strides;  // of the input, with a batch or without one
  Sizes weight;
  Sizes stride;
  std::optional<Sizes> padding;  // nothing: padding='same'
  Sizes dilation;
  int64_t groups;
  std::string padding_mode;

  int axes() const { return int(weight.size()) - 2; }
};

struct ConvRequest {
  // in_transform: a transform of torch.func computes the gradient. replayed: a CUDA graph or compiled code computes it,
  // without the host's time.
  enum Gradient : int64_t { none, wanted, replayed, in_transform } gradient = none;
  bool tangent = false;
  bool later = false;  // the call is traced or exported; another call brings sizes and gradients
};

// torch_in_format: by torch, with the memory format of our kernels' results.
// unresolved: the operator decides when it runs, or refuses the call.
enum class ConvRoute : int64_t { ours, torch, torch_in_format, unresolved };

struct ConvDecision {
  ConvRoute route;
  std::string why;   // the reason why torch computes the convolution
  int64_t row = -1;  // of the table of handovers, if a row decided
};

ConvDecision route_convolution(const Convolution& conv, const ConvRequest& request = {});

// Whether our kernels serve the convolution; `weight` is the weight's shape.
bool served_here(ScalarType dtype, const Sizes& weight, int64_t groups);

// Pixels added before and after an axis. With torch's padding='same' an even window has one more after than before.
struct Pads {
  int64_t before, after;
};
Pads same_pads(int64_t window, int64_t dilation);

// The first axis along which a call pads more than torch's own padding can, or none.
std::optional<int> too_much_padding(const Convolution& conv);

}  // namespace torch_conv
