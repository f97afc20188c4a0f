#include "dispatch/conv/conv.h"

#include <algorithm>

#include "dispatch/windows.h"
#include "graph/allocate.h"
#include "sharding/part.h"

namespace torch_conv {

namespace {

bool run_by_depthwise_family(Call& call, const Target& target, const ConvArguments& conv, const Image& out) {
  const Tensor taps = dense(call, conv.weight);
  const std::optional<Tensor> bias = conv.bias ? std::optional(dense(call, *conv.bias)) : std::nullopt;
  const Decision<Depthwise> d = dispatch(target, Depthwise{.in = conv.in.image,
                                                           .out = out,
                                                           .weight = taps.data_ptr(),
                                                           .bias = bias ? bias->data_ptr() : nullptr,
                                                           .weights = conv.in.image.dtype,
                                                           .kh = conv.axes == 1 ? 1 : taps.size(2),
                                                           .kw = taps.size(taps.dim() - 1),
                                                           .place = conv.place,
                                                           .activation = conv.activation,
                                                           .sums = conv.sums});
  if (conv.sums == Sums::mma) check_serves(call, d, wanted_by(conv.sums));
  return launch_if_served(call, target, d);
}

// The bias as direct kernels read it: contiguous, in the accumulation dtype.
std::optional<Tensor> wide_bias(Call& call, const std::optional<Tensor>& bias, ScalarType type) {
  if (!bias || (bias->scalar_type() == type && bias->is_contiguous())) return bias;
  return derive(call, *bias, *bias, sizes_of(*bias), type,
                [type](const Tensor& t) { return torch::stable::to(torch::stable::contiguous(t), type); });
}

}  // namespace

void run_convolution(Call& call, const Target& target, const ConvArguments& conv) {
  const Image& in = conv.in.image;
  const int spatial = std::max(conv.axes, 2);
  const Image out = *merge_leading(conv.result, in.dtype, spatial);
  // Parts of an image take the chains of Direct, whose bits do not depend on the part.
  if (conv.depthwise && (!part_of(call) || conv.sums == Sums::mma) && run_by_depthwise_family(call, target, conv, out))
    return;
  const Window window = prepare_weight(
      call, conv.axes == 1 ? torch::stable::unsqueeze(conv.weight, conv.weight.dim() - 1) : conv.weight, in);
  const ScalarType sums = accumulation_type(in.dtype);
  const std::optional<Tensor> bias = wide_bias(call, conv.bias, sums);
  Direct problem{.in = in,
                 .out = out,
                 .taps = window.taps,
                 .kd = window.size.d,
                 .kh = window.size.h,
                 .kw = window.size.w,
                 .place = conv.place,
                 .groups = conv.groups,
                 .bias = bias ? bias->data_ptr() : nullptr,
                 .peers = peers_of(call, in, conv.axes)};
  if (conv.activation == Activation::none) return run(call, target, problem);
  // The kernels of `Direct` have no activation. Sums of 16-bit images stay in float32, so that one rounding remains.
  std::optional<Tensor> wide;
  if (is_half(out.dtype)) {
    wide = empty_result(call, conv.in.tensor, sizes_of(conv.result), spatial, sums);
    problem.out = *merge_leading(*wide, accumulation_dtype(out.dtype), spatial);
  }
  run(call, target, problem);
  run(call, target,
      Combine{.sums = {problem.out},
              .windows = 1,
              .centre = {},
              .out = out,
              .stride_output = 0,
              .point = Point::sum,
              .number = 0,
              .margin_y = 0,
              .margin_x = 0,
              .activation = conv.activation});
}

}  // namespace torch_conv
