#include "dispatch/conv/router.h"

#include <algorithm>

#include "dispatch/conv/handover.h"
#include "tensors/boxed.h"
#include "tensors/checks.h"

namespace torch_conv {

namespace {

// Convolutions with few channels a group read each input a few times from cache and are bound by memory. Denser
// convolutions are matrix products, for which torch's libraries are fast.
constexpr int64_t kMostInputs = 4, kMostOutputs = 8;  // channels a group

bool floating(ScalarType type) {
  const auto dtype = dtype_or_none(type);
  return dtype && !is_integer(*dtype);
}

// Whether the numbers describe a convolution. The operator refuses others with a reason.
bool well_formed(const Convolution& c) {
  const int axes = c.axes(), dims = int(c.size.size());
  const auto fit = [&](const Sizes& values, int64_t least) {
    return int(values.size()) == axes &&
           std::all_of(values.begin(), values.end(), [&](int64_t n) { return n >= least || n == kUnknown; });
  };
  return axes >= 1 && axes <= 3 && (dims == axes + 1 || dims == axes + 2) && c.strides.size() == c.size.size() &&
         fit(c.stride, 1) && fit(c.dilation, 1) && (!c.padding || int(c.padding->size()) == axes) &&
         (c.groups >= 1 || c.groups == kUnknown);
}

// The one number of all axes, or nothing.
std::optional<int64_t> one_of(const Sizes& values) {
  if (values.empty()) return std::nullopt;
  for (const int64_t value : values)
    if (value != values[0] || value == kUnknown) return std::nullopt;
  return values[0];
}

bool is_contiguous(const Convolution& c) {
  int64_t expected = 1;
  for (size_t i = c.size.size(); i-- > 0; expected *= c.size[i])
    if (c.size[i] != 1 && c.strides[i] != expected) return false;
  return true;
}

// Whether a training step, all gradients included, is faster by our kernels; `torch-conv bench training` measures it.
bool trained_faster(const Convolution& c, bool replayed) {
  const int axes = c.axes();
  const auto stride = one_of(c.stride), dilation = one_of(c.dilation), padding = one_of(c.padding.value_or(Sizes{}));
  if (c.device != Convolution::cuda || axes == 3 || c.dtype == ScalarType::Double || c.padding_mode != "zeros")
    return false;
  if (!c.padding || !stride || !dilation || !padding || *dilation != 1 || *stride > 2) return false;
  if (int(c.size.size()) != axes + 2 || c.weight[1] != 1) return false;
  const int64_t channels = c.size[1] == kUnknown ? c.groups : c.size[1];
  if (channels < 2 && channels != kUnknown) return false;
  if (*padding >= *std::min_element(c.weight.begin() + 2, c.weight.end())) return false;
  if (c.weight.back() > 32) return false;  // the weight's gradient is torch's then
  // In CUDA graphs, without the host's time, our kernels are 1.2 to 24 times as fast for all these problems.
  if (replayed) return true;
  const bool inner = c.strides[1] == 1;
  if (!inner && !is_contiguous(c)) return false;
  // An eager step by torch, in us for 10^6 outputs: for windows of up to 9, 25, 100 and more taps. One NVIDIA H200, the
  // least of 64x96x56x56, 64x672x14x14, 8x96x56x56, 64x768x7x7 and 8x64x64x64 (13x13), signals of 16x2048x4096 and
  // 64x768x1024.
  static constexpr double us[2][2][2][4] = {
      // channels first, channels innermost
      {{{16, 16, 55, 55}, {33, 33, 73, 73}}, {{24, 24, 86, 86}, {45, 45, 107, 107}}},        // signals: 2 bytes, 4
      {{{17, 28, 150, 450}, {12, 18, 38, 750}}, {{44, 83, 144, 420}, {15, 32, 222, 1400}}},  // images: 2 bytes, 4
  };
  // A step by our kernels takes the host 80 to 110 us more than torch's, whose autograd is C++: 210 and 100 us for 7x7
  // of 1x96x56x56 on that GPU's machine. Models that the host binds would be slower, so torch's time has to be this
  // long.
  constexpr double least_us = 350;
  double taps = 1, outputs = double(c.weight[0]) / double(channels);
  for (int axis = 0; axis < axes; ++axis) taps *= double(c.weight[2 + axis]), outputs /= double(*stride);
  for (const int64_t n : c.size) outputs *= double(n);
  const int taps_class = taps <= 9 ? 0 : taps <= 25 ? 1 : taps <= 100 ? 2 : 3;
  return outputs * us[axes - 1][c.dtype == ScalarType::Float][inner][taps_class] >= least_us * 1e6;
}

// The query of the Python functions: a ConvRoute, the row of the table, and the bytes of the reason (api/query.h).
Sizes route(std::string device, ScalarType dtype, Sizes size, Sizes strides, Sizes weight, Sizes stride,
            std::optional<Sizes> padding, Sizes dilation, int64_t groups, std::string padding_mode, int64_t gradient,
            bool tangent, bool later) {
  const auto on = device == "cuda" ? Convolution::cuda : device == "cpu" ? Convolution::cpu : Convolution::other;
  const ConvDecision found =
      route_convolution({on, dtype, size, strides, weight, stride, padding, dilation, groups, padding_mode},
                        {.gradient = ConvRequest::Gradient(gradient), .tangent = tangent, .later = later});
  Sizes answer{int64_t(found.route), found.row};
  answer.insert(answer.end(), found.why.begin(), found.why.end());
  return answer;
}

Sizes limits() { return {kMostInputs, kMostOutputs}; }

}  // namespace

bool served_here(ScalarType dtype, const Sizes& weight, int64_t groups) {
  if (!floating(dtype) || weight[1] < 1) return false;
  // The caller has checked unknown numbers: `served_here` in torch_conv/functional/_router.py.
  if (weight[0] == kUnknown || groups == kUnknown) return true;
  const int64_t outputs = weight[0] / groups;
  return outputs >= 1 && (weight[1] == 1 || (weight[1] <= kMostInputs && outputs <= kMostOutputs));
}

Pads same_pads(int64_t window, int64_t dilation) {
  const int64_t total = dilation * (window - 1);
  return {total / 2, total - total / 2};
}

std::optional<int> too_much_padding(const Convolution& c) {
  if (c.padding_mode != "reflect" && c.padding_mode != "circular") return std::nullopt;
  for (int axis = 0; axis < c.axes(); ++axis) {
    const int64_t most = c.padding ? (*c.padding)[axis] : same_pads(c.weight[2 + axis], c.dilation[axis]).after;
    if (most > c.size[c.size.size() - c.axes() + axis] - (c.padding_mode == "reflect")) return axis;
  }
  return std::nullopt;
}

// Whether unknown numbers decide about `too_much_padding`.
bool padding_is_unknown(const Convolution& c) {
  if (c.padding_mode != "reflect" && c.padding_mode != "circular") return false;
  return any_unknown(c.size) || any_unknown(c.padding.value_or(c.dilation));
}

ConvDecision route_convolution(const Convolution& c, const ConvRequest& request) {
  const auto kept_in_format = [](const char* why) { return ConvDecision{ConvRoute::torch_in_format, why}; };
  if (!well_formed(c)) return {ConvRoute::unresolved, {}};
  if (!floating(c.dtype)) return {ConvRoute::torch, "no kernel takes " + dtype_text(c.dtype)};
  if (!served_here(c.dtype, c.weight, c.groups))
    return {ConvRoute::torch, "a matrix product of " + std::to_string(c.weight[1]) + " input and " +
                                  std::to_string(c.weight[0] / c.groups) + " output channels a group"};
  if (request.later) return {ConvRoute::unresolved, {}};
  // torch 2.11 does not return from some depthwise convolutions of float16 where the processor has AVX512-FP16.
  const bool half_on_the_cpu = c.device == Convolution::cpu && c.dtype == ScalarType::Half;
  const bool trained = request.gradient != ConvRequest::none;
  if (request.gradient == ConvRequest::in_transform)
    return kept_in_format("a gradient is wanted by a transform of torch.func");
  const bool replayed = request.gradient == ConvRequest::replayed;
  if (trained && !half_on_the_cpu && !replayed && any_unknown(c.size)) return {ConvRoute::unresolved, {}};
  if (trained && !half_on_the_cpu && !trained_faster(c, replayed))
    return kept_in_format("a gradient is wanted, and torch's forward and backward together are as fast");
  if (request.tangent) return kept_in_format("a tangent is given, which our kernels do not carry on yet");
  if (trained || half_on_the_cpu) return {ConvRoute::ours, {}};
  const int64_t row = handover_row(c);
  if (row == kUnknown) return {ConvRoute::unresolved, {}};
  if (row < 0) return {ConvRoute::ours, {}};
  if (padding_is_unknown(c)) return {ConvRoute::unresolved, {}};
  if (too_much_padding(c)) return {ConvRoute::ours, {}};
  return {ConvRoute::torch_in_format, handover_reason(row), row};
}

STABLE_TORCH_LIBRARY_FRAGMENT(torch_conv, m) {
  m.def(
      "_conv_route(str device, ScalarType dtype, int[] size, int[] strides, int[] weight, int[] stride, int[]? "
      "padding, int[] dilation, int groups, str padding_mode, int gradient, bool tangent, bool later) -> int[]");
  m.def("_conv_limits() -> int[]");
}

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CompositeExplicitAutograd, m) {
  m.impl("_conv_route", boxed<&route, "_conv_route">);
  m.impl("_conv_limits", boxed<&limits, "_conv_limits">);
}

}  // namespace torch_conv
