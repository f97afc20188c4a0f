// conv1d, conv2d and conv3d: what this project's kernels serve, and what is handed to torch.
#include "api/conv.h"

#include "api/filters.h"
#include "api/operator.h"
#include "dispatch/dispatch.h"
#include "dispatch/windows.h"
#include "graph/allocate.h"
#include "graph/launch_graph.h"

namespace torch_conv {

namespace {

Border padding_border(const char* op, const std::string& mode) {
  if (mode == "zeros") return Border::constant;
  if (mode == "reflect") return Border::reflect;
  if (mode == "replicate") return Border::replicate;
  if (mode == "circular") return Border::circular;
  refuse(op, "padding_mode must be 'zeros', 'reflect', 'replicate' or 'circular', got '", mode, "'");
}

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

void check_same_dtype(const char* op, const char* argument, const Tensor& t, const Tensor& input) {
  if (t.scalar_type() != input.scalar_type())
    refuse(op, argument, " must have the input's dtype ", dtype_text(input.scalar_type()), ", got ",
           dtype_text(t.scalar_type()));
}

void check_conv(const char* op, const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                const ConvOptions& o, int axes) {
  check(weight.dim() == axes + 2, op, "weight must have ", axes + 2, " dimensions, got ", weight.dim());
  check(input.dim() == axes + 1 || input.dim() == axes + 2, op, "input must have ", axes + 1, " (unbatched) or ",
        axes + 2, " dimensions, got ", input.dim());
  check_same_dtype(op, "weight", weight, input);
  if (!same_device(weight, input)) refuse(op, "weight must be on ", device_text(input), ", got ", device_text(weight));
  check(o.groups >= 1, op, "groups must be at least 1, got ", o.groups);
  const int64_t channels = input.size(input.dim() - axes - 1);
  if (channels != weight.size(1) * o.groups)
    refuse(op, "input must have ", weight.size(1) * o.groups, " channels for a weight of shape ",
           shape_text(sizes_of(weight)), " and groups ", o.groups, ", got ", channels);
  check(weight.size(0) >= o.groups && weight.size(0) % o.groups == 0, op, "the weight's ", weight.size(0),
        " output channels must be a positive multiple of groups ", o.groups);
  for (const auto& [name, values] :
       {std::pair{"stride", &o.stride}, {"padding", &o.padding}, {"dilation", &o.dilation}})
    check(int(values->size()) == axes, op, name, " must have ", axes, axes == 1 ? " value" : " values", ", got ",
          values->size());
  check_positive(op, "stride", o.stride);
  check_positive(op, "dilation", o.dilation);
  for (int64_t p : o.padding) {
    check(p >= 0, op, "padding must be at least 0, got ", p);
    check(p <= kLargest, op, "padding must be at most ", kLargest, ", got ", p);
  }
  if (o.word && !is_valid_padding(op, *o.word))
    for (int64_t s : o.stride) check(s == 1, op, "padding='same' needs stride 1, got ", s);
  const bool no_images = input.dim() == axes + 2 && input.size(0) == 0;  // which may have no pixels, as in F.convNd
  for (int axis = 0; axis < axes; ++axis) {
    if (input.size(input.dim() - axes + axis) < 1 && !no_images)
      refuse(op, "input must have at least one pixel an axis, got shape ", shape_text(sizes_of(input)));
    if (weight.size(2 + axis) < 1)
      refuse(op, "weight must have at least one tap, got shape ", shape_text(sizes_of(weight)));
  }
  if (!bias) return;
  check(bias->dim() == 1 && bias->size(0) == weight.size(0), op, "bias must have shape (", weight.size(0), ",), got ",
        shape_text(sizes_of(*bias)));
  check_same_dtype(op, "bias", *bias, input);
  if (!same_device(*bias, input)) refuse(op, "bias must be on ", device_text(input), ", got ", device_text(*bias));
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

}  // namespace

Activation activation_of(const char* op, const std::optional<std::string>& name) {
  if (!name) return Activation::none;
  if (*name == "relu") return Activation::relu;
  if (*name == "relu6") return Activation::relu6;
  if (*name == "gelu") return Activation::gelu;
  if (*name == "silu") return Activation::silu;
  if (*name == "hardswish") return Activation::hardswish;
  refuse(op, "activation must be None, 'relu', 'relu6', 'gelu', 'silu' or 'hardswish', got '", *name, "'");
}

Tensor conv(Call& call, int axes, const Tensor& input, Tensor weight, std::optional<Tensor> bias, ConvOptions o) {
  const char* op = call.op;
  if (call.slice) cut_groups(call, axes, weight, bias, o.groups);
  if (call.of_shards) {
    weight = on_device_of(call, input, weight);
    if (bias) bias = on_device_of(call, input, *bias);
  }
  static constexpr const char* algorithms[] = {"auto", "ours", "direct", "tensor_core", "torch"};
  check_algorithm(op, o.algorithm, algorithms);
  check_conv(op, input, weight, bias, o, axes);
  const auto dtype = dtype_or_none(input.scalar_type());
  if (o.activation != Activation::none && (!dtype || is_integer(*dtype)))
    refuse(op, "activation must be None for an input of dtype ", dtype_text(input.scalar_type()));
  const Border border = padding_border(op, o.padding_mode);
  const int spatial = std::max(axes, 2);
  const bool here = served_here(input.scalar_type(), sizes_of(weight), o.groups);
  check(here || (o.algorithm != "direct" && o.algorithm != "ours"), op, "algorithm '", o.algorithm,
        "' serves depthwise and few-channel floating-point convolutions only");
  const bool depthwise = here && axes <= 2 && weight.size(1) == 1 && o.groups > 1 && border == Border::constant;
  check(depthwise || o.algorithm != "tensor_core", op,
        "algorithm 'tensor_core' serves depthwise convolutions of images with zeros outside only");
  const std::vector<Pads> all = all_pads(op, o, weight);
  const Convolution numbers = numbers_of(call, input, weight, o);
  const std::optional<int> too_much = too_much_padding(numbers);
  // What serves the whole serves its parts.
  const std::string why = call.whole ? call.whole->by_torch : why_torch(numbers, o.algorithm);
  const bool torchs = !why.empty();
  Geometry g{.place = {.pad_y = 0, .pad_x = 0, .border = border}, .out = {.h = 1, .w = 1}};
  Placement& p = g.place;
  Extent footprint{.h = 1, .w = 1}, padded{.h = 1, .w = 1};
  AxisFootprint* const along = call.footprint.axis;
  const auto place_axis = [&](int from_end, int64_t& pad, int64_t& stride, int64_t& dilation, int64_t Extent::*axis) {
    if (from_end > axes) return;
    const int i = axes - from_end;
    const int64_t k = weight.size(2 + i);
    const Pads pads = pads_of(op, o, i, k);
    pad = pads.before, stride = o.stride[i], dilation = o.dilation[i];
    footprint.*axis = dilation * (k - 1) + 1;
    padded.*axis = input.size(input.dim() - from_end) + pads.before + pads.after;
    g.out.*axis = (padded.*axis - footprint.*axis) / stride + 1;
    along[kAxes - from_end] = {pad, footprint.*axis, stride, (footprint.*axis - 1) / 2 - pad, g.out.*axis};
  };
  place_axis(3, p.pad_z, p.stride_z, p.dilation_z, &Extent::d);
  place_axis(2, p.pad_y, p.stride_y, p.dilation_y, &Extent::h);
  place_axis(1, p.pad_x, p.stride_x, p.dilation_x, &Extent::w);
  if (footprint.d > padded.d || footprint.h > padded.h || footprint.w > padded.w)
    refuse(op, "a window of ", extent_text(footprint, spatial), " does not fit into the padded ",
           axes == 3 ? "volume of " : "image of ", extent_text(padded, spatial));
  if (torchs && too_much && !call.part) {
    const int64_t n = input.size(input.dim() - axes + *too_much);
    refuse(op, "padding must be at most ", border == Border::reflect ? n - 1 : n, " along an axis of ", n,
           " with padding_mode='", o.padding_mode, "', got ", std::max(all[*too_much].before, all[*too_much].after));
  }
  call.footprint.border = border;
  settle(call, g);

  const Tensor images = axes == 1 ? with_height(input) : input;
  Sizes sizes = resized(images, g.out, spatial);
  sizes[sizes.size() - spatial - 1] = weight.size(0);
  const Sums sums = sums_of(o.algorithm);
  // What follows a launch follows it on one shard only; the kernel family for depthwise convolutions reads no other
  // shards.
  call.footprint.direct = axes >= 2 && !torchs && o.activation == Activation::none && sums != Sums::mma;
  call.footprint.by_torch = why;
  call.footprint.result = axes == 1 ? without_height(sizes) : sizes, call.footprint.dtype = input.scalar_type();
  if (call.only_footprint()) return input;
  if (torchs) {
    if (call.lines) call.explain("handed to torch: " + why);
    if (call.part) return part_by_torch(call, input, weight, bias, o);
    // What 'auto' returns has one memory format, whoever computes it: the fakes know no more.
    const bool formatted = here && o.algorithm == "auto";
    const auto compute = [op, o, axes, formatted](const Tensor& input, const Tensor& weight,
                                                  const std::optional<Tensor>& bias) {
      const Tensor computed = by_torch(op, input, weight, bias, o);
      return formatted ? in_format_of(input, computed, axes) : computed;
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
  const ImageView in = view_input(call, images, spatial);
  const auto given = [&] {
    const Tensor& result = call.part->result;
    return axes == 1 ? with_height(result) : result;
  };
  Tensor result = call.part ? given() : empty_result(call, images, sizes, spatial, input.scalar_type());
  const auto returned = [&] { return axes == 1 ? torch::stable::squeeze(result, result.dim() - 2) : result; };
  if (result.numel() == 0) return returned();
  const Target target(call, input);
  const Image out = *merge_leading(result, in.image.dtype, spatial);
  // Parts of an image are made by the chains of Direct, whose bits do not depend on where an image is cut.
  if (depthwise && (!call.part || sums == Sums::mma)) {
    const Tensor taps = dense(call, weight);
    const std::optional<Tensor> offsets = bias ? std::optional(dense(call, *bias)) : std::nullopt;
    const Depthwise problem{.in = in.image,
                            .out = out,
                            .weight = taps.data_ptr(),
                            .bias = offsets ? offsets->data_ptr() : nullptr,
                            .weights = in.image.dtype,
                            .kh = axes == 1 ? 1 : weight.size(2),
                            .kw = weight.size(weight.dim() - 1),
                            .place = p,
                            .activation = o.activation,
                            .sums = sums};
    if (run_depthwise(call, target, input, problem)) return returned();
  }
  const Window window = prepare_weight(call, axes == 1 ? with_height(weight) : weight, in.image);

  std::optional<Tensor> offsets;  // the bias in the accumulation dtype
  const ScalarType sums_type = accumulation_type(in.image.dtype);
  if (bias && bias->scalar_type() == sums_type && bias->is_contiguous()) offsets = bias;
  else if (bias)
    offsets = make_of(call, *bias, *bias, sizes_of(*bias), sums_type, [sums_type](const Tensor& t) {
      return torch::stable::to(torch::stable::contiguous(t), sums_type);
    });
  Direct problem{.in = in.image,
                 .out = out,
                 .taps = window.taps,
                 .kd = window.size.d,
                 .kh = window.size.h,
                 .kw = window.size.w,
                 .place = p,
                 .groups = o.groups,
                 .bias = offsets ? offsets->data_ptr() : nullptr,
                 .peers = peers_of(call, in.image, axes)};
  if (o.activation == Activation::none) {
    run(call, target, input, problem);
    return returned();
  }
  // The kernels of `Direct` have no activation. Sums of 16-bit images stay in float32, so that one rounding remains.
  std::optional<Tensor> wide;
  if (is_half(out.dtype)) {
    wide = empty_result(call, images, sizes_of(result), spatial, sums_type);
    problem.out = *merge_leading(*wide, accumulation_dtype(out.dtype), spatial);
  }
  run(call, target, input, problem);
  run(call, target, input,
      Combine{.sums = {problem.out},
              .windows = 1,
              .centre = {},
              .out = out,
              .stride_output = 0,
              .point = Point::sum,
              .number = 0,
              .margin_y = 0,
              .margin_x = 0,
              .activation = o.activation});
  return returned();
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
