// conv1d, conv2d and conv3d: checks, the route to our kernels or to torch, and the result.
#include "api/conv.h"

#include "api/conv_checks.h"
#include "api/filters.h"
#include "api/operator.h"
#include "dispatch/conv/conv.h"
#include "graph/allocate.h"

namespace torch_conv {

namespace {

Convolution numbers_of(Call& call, const Tensor& input, const Tensor& weight, const ConvOptions& o) {
  std::optional<Sizes> padding = o.padding;
  if (o.word && *o.word == "same") padding.reset();
  return {on_cuda(call, input) ? Convolution::cuda : Convolution::cpu,
          input.scalar_type(),
          sizes_of(input),
          strides_of(input),
          sizes_of(weight),
          o.stride,
          padding,
          o.dilation,
          o.groups,
          o.padding_mode};
}

// Why torch serves a call; "" if our kernels do.
std::string why_torch(const Convolution& conv, const std::string& algorithm) {
  if (algorithm == "torch") return "algorithm 'torch'";
  return algorithm == "auto" ? route_convolution(conv).why : "";
}

// A 1-D convolution is a 2-D one on images of height 1.
Tensor with_height(const Tensor& t) { return torch::stable::unsqueeze(t, t.dim() - 1); }

Sizes without_height(Sizes sizes) {
  sizes.erase(sizes.end() - 2);
  return sizes;
}

// The windows of a call on some channels of a whole: whole groups of them, and the outputs that they make.
void cut_groups(const Call& call, int axes, Tensor& weight, std::optional<Tensor>& bias, int64_t& groups) {
  if (!call.slice || call.slice->dim_from_end != axes + 1) return;
  const int64_t in = weight.size(1), out = weight.size(0) / groups, begin = call.slice->begin, size = call.slice->size;
  check(groups > 1, call.op, "a dense convolution cannot be split along its channels");
  check(begin % in == 0 && size % in == 0, call.op, "shards along channels must hold whole groups of ", in,
        " channels, got one of ", size, " from channel ", begin, " on");
  groups = size / in;
  weight = narrow(weight, 0, begin / in * out, groups * out);
  if (bias) bias = narrow(*bias, 0, begin / in * out, groups * out);
}

Sums sums_of(const std::string& algorithm) {
  return algorithm == "direct" ? Sums::chain : algorithm == "tensor_core" ? Sums::mma : Sums::any;
}

// Is the convolution one of the depthwise kernel family? Refuses algorithms that serve others only.
bool is_depthwise(const char* op, int axes, const Tensor& input, const Tensor& weight, const ConvOptions& o,
                  Border border) {
  const bool served = served_here(input.scalar_type(), sizes_of(weight), o.groups);
  check(served || (o.algorithm != "direct" && o.algorithm != "ours"), op, "algorithm '", o.algorithm,
        "' serves depthwise and few-channel floating-point convolutions only");
  const bool depthwise = served && axes <= 2 && weight.size(1) == 1 && o.groups > 1 && border == Border::constant;
  check(depthwise || o.algorithm != "tensor_core", op,
        "algorithm 'tensor_core' serves depthwise convolutions of images with zeros outside only");
  return depthwise;
}

// Placement of the windows, size of the result, and the call's footprint. Refuses windows larger than the padded image.
Geometry place_windows(Call& call, int axes, const Tensor& input, const Tensor& weight, const ConvOptions& o,
                       Border border) {
  Geometry g{.place = {.pad_y = 0, .pad_x = 0, .border = border}, .out = {.h = 1, .w = 1}};
  Extent span{.h = 1, .w = 1}, padded{.h = 1, .w = 1};
  const std::vector<Pads> all = all_pads(call.op, o, weight);
  const auto place_axis = [&](int from_end, int64_t& pad, int64_t& stride, int64_t& dilation, int64_t Extent::*axis) {
    if (from_end > axes) return;
    const int i = axes - from_end;
    pad = all[i].before, stride = o.stride[i], dilation = o.dilation[i];
    span.*axis = dilation * (weight.size(2 + i) - 1) + 1;
    padded.*axis = input.size(input.dim() - from_end) + all[i].before + all[i].after;
    g.out.*axis = (padded.*axis - span.*axis) / stride + 1;
    call.footprint.axis[kAxes - from_end] = {pad, span.*axis, stride, (span.*axis - 1) / 2 - pad, g.out.*axis};
  };
  Placement& p = g.place;
  place_axis(3, p.pad_z, p.stride_z, p.dilation_z, &Extent::d);
  place_axis(2, p.pad_y, p.stride_y, p.dilation_y, &Extent::h);
  place_axis(1, p.pad_x, p.stride_x, p.dilation_x, &Extent::w);
  if (span.d > padded.d || span.h > padded.h || span.w > padded.w) {
    const int spatial = std::max(axes, 2);
    refuse(call.op, "a window of ", extent_text(span, spatial), " does not fit into the padded ",
           axes == 3 ? "volume of " : "image of ", extent_text(padded, spatial));
  }
  call.footprint.border = border;
  apply_part(call, g);
  return g;
}

// torch's own padding by reflection or wrapping is at most the image.
void check_padding_of_torch(const char* op, int axes, const Tensor& input, const Tensor& weight, const ConvOptions& o,
                            const Convolution& conv) {
  const std::optional<int> axis = too_much_padding(conv);
  if (!axis) return;
  const int64_t n = input.size(input.dim() - axes + *axis);
  const Pads pads = all_pads(op, o, weight)[*axis];
  refuse(op, "padding must be at most ", o.padding_mode == "reflect" ? n - 1 : n, " along an axis of ", n,
         " with padding_mode='", o.padding_mode, "', got ", std::max(pads.before, pads.after));
}

}  // namespace

Tensor conv(Call& call, int axes, const Tensor& input, Tensor weight, std::optional<Tensor> bias, ConvOptions o) {
  const char* op = call.op;
  if (call.slice) cut_groups(call, axes, weight, bias, o.groups);
  if (call.of_shards) {
    weight = on_device_of(call, input, weight);
    if (bias) bias = on_device_of(call, input, *bias);
  }
  check_conv(op, input, weight, bias, o, axes);
  const Border border = padding_border(op, o.padding_mode);
  const bool depthwise = is_depthwise(op, axes, input, weight, o, border);
  const Convolution convolution = numbers_of(call, input, weight, o);
  // One route serves the whole image and its parts.
  const std::string why = call.whole ? call.whole->by_torch : why_torch(convolution, o.algorithm);
  const Geometry g = place_windows(call, axes, input, weight, o, border);
  if (!why.empty() && !call.part) check_padding_of_torch(op, axes, input, weight, o, convolution);

  const int spatial = std::max(axes, 2);
  const Tensor images = axes == 1 ? with_height(input) : input;
  Sizes sizes = resized(images, g.out, spatial);
  sizes[sizes.size() - spatial - 1] = weight.size(0);
  const Sums sums = sums_of(o.algorithm);
  // An activation after the launch needs the whole shard, and the depthwise kernel family reads no neighbour shards.
  call.footprint.direct = axes >= 2 && why.empty() && o.activation == Activation::none && sums != Sums::mma;
  call.footprint.by_torch = why;
  call.footprint.result = axes == 1 ? without_height(sizes) : sizes, call.footprint.dtype = input.scalar_type();
  if (call.only_footprint()) return input;
  if (!why.empty()) return hand_over(call, input, weight, bias, o);

  const ImageView in = view_input(call, images, spatial);
  Tensor result = !call.part  ? empty_result(call, images, sizes, spatial, input.scalar_type())
                  : axes == 1 ? with_height(call.part->result)
                              : call.part->result;
  if (result.numel() > 0)
    run_convolution(call, Target(call, input),
                    {.axes = axes,
                     .in = in,
                     .result = result,
                     .weight = weight,
                     .bias = bias,
                     .place = g.place,
                     .groups = o.groups,
                     .depthwise = depthwise,
                     .sums = sums,
                     .activation = o.activation});
  return axes == 1 ? torch::stable::squeeze(result, result.dim() - 2) : result;
}

namespace {

// `padding` is a list or a word.
template <int axes, typename Pad>
Tensor convolution(Call& call, const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                   const Sizes& stride, const Pad& padding, const Sizes& dilation, const int64_t& groups,
                   const std::string& padding_mode, const std::string& algorithm,
                   const std::optional<std::string>& activation) {
  ConvOptions o{stride, Sizes(axes, 0), {}, dilation, groups, padding_mode, algorithm};
  if constexpr (std::is_same_v<Pad, Sizes>) o.padding = padding;
  else o.word = padding;
  o.activation = activation_of(call.op, activation);
  return conv(call, axes, input, weight, bias, o);
}

void register_convolutions(torch::stable::detail::StableLibrary& m) {
  Operator<"conv1d", 1, 0, convolution<1, Sizes>>::implement(m);
  Operator<"conv1d.padding", 1, 0, convolution<1, std::string>>::implement(m);
  Operator<"conv2d", 2, 0, convolution<2, Sizes>>::implement(m);
  Operator<"conv2d.padding", 2, 0, convolution<2, std::string>>::implement(m);
  Operator<"conv3d", 3, 0, convolution<3, Sizes>>::implement(m);
  Operator<"conv3d.padding", 3, 0, convolution<3, std::string>>::implement(m);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_convolutions(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_convolutions(m); }

}  // namespace torch_conv
