// conv1d, conv2d and conv3d: checks, the route to our kernels or to torch, the result.
#include "api/conv.h"

#include "api/filter_call.h"
#include "api/operator.h"
#include "api/schema.h"
#include "dispatch/conv/conv.h"
#include "graph/allocate.h"

namespace torch_conv {

namespace {

Convolution numbers_of(Call& call, const Tensor& input, const Tensor& weight, const ConvOptions& o) {
  std::optional<Sizes> padding = o.padding;
  if (o.padding_name && *o.padding_name == "same") padding.reset();
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

// The reason why torch serves a call, or "".
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

// The weight and the bias of a call on some channels of a whole. The channels must be whole groups.
void slice_groups(const Call& call, int axes, Tensor& weight, std::optional<Tensor>& bias, int64_t& groups) {
  const Slice* slice = shards_of(call).slice;
  if (!slice || slice->dim_from_end != axes + 1) return;
  const int64_t in = weight.size(1), out = weight.size(0) / groups, begin = slice->begin, size = slice->size;
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

// Whether the depthwise kernel family may serve the convolution. Refuses algorithms that serve other convolutions.
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

// Refuses windows larger than the padded image.
Geometry place_conv_windows(Call& call, int axes, const Tensor& input, const Tensor& weight, const ConvOptions& o,
                            Border border) {
  const std::vector<Pads> pads = all_pads(call.op, o, weight);
  std::vector<AxisWindow> windows;
  for (int i = 0; i < axes; ++i) {
    AxisWindow& w = windows.emplace_back(AxisWindow{.pixels = input.size(input.dim() - axes + i),
                                                    .taps = weight.size(2 + i),
                                                    .stride = o.stride[i],
                                                    .dilation = o.dilation[i],
                                                    .before = pads[i].before,
                                                    .after = pads[i].after});
    w.middle = (w.span() - 1) / 2 - w.before;
  }
  if (larger_than_padded(windows))
    refuse(call.op, "a window of ", spans_text(windows), " does not fit into the padded ",
           axes == 3 ? "volume of " : "image of ", padded_text(windows));
  return place_axes(call, windows, {.pad_y = 0, .pad_x = 0, .border = border});
}

// torch pads by reflection or wrapping at most by the image.
void check_torch_padding(const char* op, int axes, const Tensor& input, const Tensor& weight, const ConvOptions& o,
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
  slice_groups(call, axes, weight, bias, o.groups);
  if (call.on_shards) {
    weight = on_device_of(call, input, weight);
    if (bias) bias = on_device_of(call, input, *bias);
  }
  check_conv(op, input, weight, bias, o, axes);
  const Border border = padding_border(op, o.padding_mode);
  const bool depthwise = is_depthwise(op, axes, input, weight, o, border);
  const Convolution convolution = numbers_of(call, input, weight, o);
  // Parts take the route of the whole image.
  const auto [part, slice, whole, streams] = shards_of(call);
  const std::string why = whole ? whole->by_torch : why_torch(convolution, o.algorithm);
  const Geometry g = place_conv_windows(call, axes, input, weight, o, border);
  if (!why.empty() && !part) check_torch_padding(op, axes, input, weight, o, convolution);

  const int spatial = std::max(axes, 2);
  const Tensor images = axes == 1 ? with_height(input) : input;
  Sizes sizes = resized(images, g.out, spatial);
  sizes[sizes.size() - spatial - 1] = weight.size(0);
  const Sums sums = sums_of(o.algorithm);
  // An activation runs on the whole shard after the launch. The depthwise kernel family reads no neighbour shards.
  call.footprint.reads_shards = axes >= 2 && why.empty() && o.activation == Activation::none && sums != Sums::mma;
  call.footprint.by_torch = why;
  call.footprint.result = axes == 1 ? without_height(sizes) : sizes, call.footprint.dtype = input.scalar_type();
  if (call.only_footprint()) return input;
  if (!why.empty()) return hand_over(call, input, weight, bias, o);

  const ImageView in = view_input(call, images, spatial);
  Tensor result = !part       ? empty_result(call, images, sizes, spatial, input.scalar_type())
                  : axes == 1 ? with_height(part->result)
                              : part->result;
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

// `padding` is a list or a name.
template <int axes, typename Pad>
Tensor convolution(Call& call, const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                   const Sizes& stride, const Pad& padding, const Sizes& dilation, const int64_t& groups,
                   const std::string& padding_mode, const std::string& algorithm,
                   const std::optional<std::string>& activation) {
  ConvOptions o{stride, Sizes(axes, 0), {}, dilation, groups, padding_mode, algorithm};
  if constexpr (std::is_same_v<Pad, Sizes>) o.padding = padding;
  else o.padding_name = padding;
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

STABLE_TORCH_LIBRARY_FRAGMENT(torch_conv, m) {
  for (const std::string n : {"1", "2", "3"}) {
    const std::string head = "(Tensor input, Tensor weight, Tensor? bias=None, int[" + n + "] stride=1, ";
    const std::string tail = ", int[" + n +
                             "] dilation=1, SymInt groups=1, *, str padding_mode='zeros', "
                             "str algorithm='auto', str? activation=None) -> Tensor";
    define(m, "conv" + n + "d" + head + "int[" + n + "] padding=0" + tail);
    define(m, "conv" + n + "d.padding" + head + "str padding='valid'" + tail);
  }
}

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_convolutions(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_convolutions(m); }

}  // namespace torch_conv
