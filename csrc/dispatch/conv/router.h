// Who computes a convolution: our kernels, torch, or whoever the operator finds when it runs. Numbers only: the
// operators ask for their tensors, the functions of Python by the query `_conv_route`.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "tensors/torch_api.h"

namespace torch_conv {

// A number that torch.compile does not know. Sizes are unknown together; an option that is unknown is above 1, because
// torch makes no symbol of 0 and 1.
constexpr int64_t kUnknown = -(int64_t(1) << 62);

inline bool any_unknown(const Sizes& sizes) { return std::find(sizes.begin(), sizes.end(), kUnknown) != sizes.end(); }

// A convolution as the router sees it. Of an image in shards, the whole.
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
  // of_transform: by a transform of torch.func; replayed: in a CUDA graph or compiled code, without the host's time.
  enum Gradient : int64_t { none, wanted, replayed, of_transform } gradient = none;
  bool tangent = false;
  bool later = false;  // the call is traced or exported: its sizes and gradients are those of another call
};

// torch_in_format: by torch, in the memory format that our kernels' result would have.
// unresolved: the operator decides when it runs, or refuses the call.
enum class ConvRoute : int64_t { ours, torch, torch_in_format, unresolved };

struct ConvDecision {
  ConvRoute route;
  std::string why;   // torch computes it
  int64_t row = -1;  // of the table of handovers, if that decided
};

ConvDecision route_convolution(const Convolution& conv, const ConvRequest& request = {});

// Whether our kernels take the convolution; `weight` is the weight's shape.
bool served_here(ScalarType dtype, const Sizes& weight, int64_t groups);

// Pixels added before and after each axis. torch's padding='same': an even window pads one more after than before.
struct Pads {
  int64_t before, after;
};
Pads same_pads(int64_t window, int64_t dilation);

// The first axis along which a call pads more than torch's own padding can, or none.
std::optional<int> too_much_padding(const Convolution& conv);

}  // namespace torch_conv
