#include "dispatch/conv/by_torch.h"

#include <algorithm>

#include "graph/launch_graph.h"
#include "sharding/part.h"
#include "tensors/boxed.h"
#include "tensors/checks.h"
#include "tensors/images.h"

namespace torch_conv {

namespace {

// Applies the activation in place to torch's result.
void activate(const Tensor& sums, Activation activation) {
  switch (activation) {
    case Activation::none: return;
    case Activation::relu: call_aten("aten::relu_", "", sums); return;
    case Activation::relu6: call_aten("aten::relu6_", "", sums); return;
    case Activation::gelu: call_aten("aten::gelu_", "", sums, std::string("none")); return;
    case Activation::silu: call_aten("aten::silu_", "", sums); return;
    case Activation::hardswish: call_aten("aten::hardswish_", "", sums); return;
  }
}

Sizes result_sizes(const Tensor& input, const Tensor& weight, const ConvOptions& o, const Sizes& padding) {
  const int64_t axes = weight.dim() - 2;
  Sizes sizes = sizes_of(input);
  sizes[input.dim() - axes - 1] = weight.size(0);
  for (int64_t axis = 0; axis < axes; ++axis) {
    int64_t& size = sizes[input.dim() - axes + axis];
    size = (size + 2 * padding[axis] - o.dilation[axis] * (weight.size(2 + axis) - 1) - 1) / o.stride[axis] + 1;
  }
  return sizes;
}

Tensor call_torch(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias, const ConvOptions& o,
                  const Sizes& padding) {
  const std::string name = "aten::conv" + std::to_string(weight.dim() - 2) + "d";
  try {
    const Tensor sums = call_aten(name.c_str(), "", input, weight, bias, o.stride, padding, o.dilation, o.groups);
    activate(sums, o.activation);
    return sums;
  } catch (const std::runtime_error&) {
    if (torch_says_why()) throw;
    // Torch may refuse these tensors or lack memory. An allocation of the result alone throws OutOfMemory.
    const Sizes sizes = result_sizes(input, weight, o, padding);
    empty_strided(device_of(input), sizes, contiguous_strides(sizes), input.scalar_type());
    throw std::runtime_error("torch_conv: torch failed to compute " + name.substr(6) + ", and says why on stderr");
  }
}

// The input with `pads` by padding_mode. torch takes the pads of the last axis first.
Tensor padded(const Tensor& input, const std::vector<Pads>& pads, const ConvOptions& o) {
  Sizes flat;
  for (size_t axis = pads.size(); axis-- > 0;) flat.insert(flat.end(), {pads[axis].before, pads[axis].after});
  return torch::stable::pad(input, flat, o.padding_mode == "zeros" ? "constant" : o.padding_mode);
}

}  // namespace

std::vector<Pads> all_pads(const char* op, const ConvOptions& o, const Tensor& weight) {
  const bool valid = o.padding_name && is_valid_padding(op, *o.padding_name);
  std::vector<Pads> pads;
  for (int64_t axis = 0; axis < weight.dim() - 2; ++axis)
    pads.push_back(!o.padding_name ? Pads{o.padding[axis], o.padding[axis]}
                   : valid         ? Pads{0, 0}
                                   : same_pads(weight.size(2 + axis), o.dilation[axis]));
  return pads;
}

namespace {

Tensor by_torch(const char* op, const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                const ConvOptions& o) {
  const int axes = int(weight.dim()) - 2;
  if (o.padding_mode == "zeros") {
    if (!o.padding_name) return call_torch(input, weight, bias, o, o.padding);
    // torch 2.11 loses the memory of every string argument, so numbers replace the name 'same'. A copy has the pixels
    // that one side has more than the other.
    Sizes both;
    std::vector<Pads> extra = all_pads(op, o, weight);
    for (Pads& p : extra) {
      both.push_back(std::min(p.before, p.after));
      p.before -= both.back(), p.after -= both.back();
    }
    const bool even = std::all_of(extra.begin(), extra.end(), [](const Pads& p) { return p.before == p.after; });
    return call_torch(even ? input : padded(input, extra, o), weight, bias, o, both);
  }
  return call_torch(padded(input, all_pads(op, o, weight), o), weight, bias, o, Sizes(axes, 0));
}

Tensor part_by_torch(Call& call, const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                     const ConvOptions& o) {
  const Part& part = *part_of(call);
  const int axes = int(weight.dim()) - 2, axis = part.axis - (kAxes - axes);
  if (!call.runs()) return part.result;
  if (call.graph) call.graph->invalidate();
  std::vector<Pads> pads = all_pads(call.op, o, weight);
  const int64_t dim = input.dim() - axes + axis;
  const int64_t read = (part.out - 1) * o.stride[axis] + o.dilation[axis] * (weight.size(2 + axis) - 1) + 1;
  pads[axis] = {part.pad, std::max<int64_t>(0, read - part.pad - input.size(dim))};
  Tensor result = part.result;
  const Tensor extended = narrow(padded(input, pads, o), dim, 0, read);
  torch::stable::copy_(result, call_torch(extended, weight, bias, o, Sizes(axes, 0)));
  return result;
}

}  // namespace

Tensor hand_over(Call& call, const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                 const ConvOptions& o) {
  if (call.lines) call.explain("handed to torch: " + call.footprint.by_torch);
  if (part_of(call)) return part_by_torch(call, input, weight, bias, o);
  // The result of 'auto' has one memory format from torch and from this library, because the fakes do not know which
  // one serves.
  const bool formatted = o.algorithm == "auto" && served_here(input.scalar_type(), sizes_of(weight), o.groups);
  const auto compute = [op = call.op, o, formatted](const Tensor& input, const Tensor& weight,
                                                    const std::optional<Tensor>& bias) {
    const Tensor computed = by_torch(op, input, weight, bias, o);
    return formatted ? in_format_of(input, computed, int(weight.dim()) - 2) : computed;
  };
  if (!call.runs()) return input;
  const Tensor computed = compute(input, weight, bias);
  if (LaunchGraph* graph = call.graph) {
    const int in = graph->index_of(input), w = graph->index_of(weight), b = bias ? graph->index_of(*bias) : -1;
    graph->record_tensor(computed, [=](const Replay& r) {
      return compute(r.tensor(in), r.tensor(w), b < 0 ? std::nullopt : r.memory[b]);
    });
  }
  return computed;
}

}  // namespace torch_conv
