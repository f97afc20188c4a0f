// conv1d, conv2d and conv3d: what this project's kernels serve, and what is handed to torch.
#include "api/filters.h"
#include "api/operator.h"
#include "dispatch/conv_by_torch.h"
#include "dispatch/dispatch.h"
#include "dispatch/handover.h"
#include "dispatch/windows.h"
#include "graph/allocate.h"
#include "graph/graph_cache.h"
#include "graph/launch_graph.h"

namespace torch_conv {

namespace {

Activation activation_of(const char* op, const std::optional<std::string>& name) {
  if (!name) return Activation::none;
  if (*name == "relu") return Activation::relu;
  if (*name == "relu6") return Activation::relu6;
  if (*name == "gelu") return Activation::gelu;
  if (*name == "silu") return Activation::silu;
  if (*name == "hardswish") return Activation::hardswish;
  refuse(op, "activation must be None, 'relu', 'relu6', 'gelu', 'silu' or 'hardswish', got '", *name, "'");
}

bool floating(const Tensor& input) {
  const auto dtype = dtype_or_none(input.scalar_type());
  return dtype && !is_integer(*dtype);
}

// Depthwise (with multiplier), single-channel and few-channel banks read each input a few times from cache and are
// bound by memory; denser convolutions are matrix products, which torch's libraries do well.
// torch_conv/functional states the same rule. Where torch is ahead of these as well, dispatch/handover.h says so.
bool served_here(const Tensor& input, const Tensor& weight, int64_t groups) {
  const int64_t per_group_in = weight.size(1), per_group_out = weight.size(0) / groups;
  return floating(input) && per_group_in >= 1 && per_group_out >= 1 &&
         (per_group_in == 1 || (per_group_in <= 4 && per_group_out <= 8));
}

Border padding_border(const char* op, const std::string& mode) {
  if (mode == "zeros") return Border::constant;
  if (mode == "reflect") return Border::reflect;
  if (mode == "replicate") return Border::replicate;
  if (mode == "circular") return Border::circular;
  refuse(op, "padding_mode must be 'zeros', 'reflect', 'replicate' or 'circular', got '", mode, "'");
}

// Why the table hands a convolution that our kernels serve to torch; null where ours are ahead.
const char* torch_is_ahead(bool cuda, const Tensor& input, const Tensor& weight, const ConvOptions& o, int axes) {
  const int64_t dims = input.dim();
  const auto largest = [](const Sizes& values) { return *std::max_element(values.begin(), values.end()); };
  return handed_over({.cuda = cuda,
                      .axes = axes,
                      .dtype = *dtype_or_none(input.scalar_type()),
                      .channels_last = input.stride(dims - axes - 1) == 1 && input.stride(dims - 1) != 1,
                      .zeros = o.padding_mode == "zeros",
                      .channels = weight.size(1) * o.groups,
                      .groups = o.groups,
                      .outputs = weight.size(0),
                      .n = dims == axes + 2 ? input.size(0) : 1,
                      .d = axes == 3 ? input.size(dims - 3) : 1,
                      .h = axes == 1 ? 1 : input.size(dims - 2),
                      .w = input.size(dims - 1),
                      .kd = axes == 3 ? weight.size(2) : 1,
                      .kh = axes == 1 ? 1 : weight.size(axes),
                      .kw = weight.size(axes + 1),
                      .stride = largest(o.stride),
                      .dilation = largest(o.dilation)});
}

// The first axis along which a call pads more than torch's own padding can, or none.
std::optional<int> too_much_padding(const Tensor& input, const std::vector<Pads>& pads, Border border) {
  for (size_t axis = 0; axis < pads.size(); ++axis) {
    const int64_t n = input.size(input.dim() - int64_t(pads.size() - axis));
    const int64_t most = std::max(pads[axis].before, pads[axis].after);
    if ((border == Border::reflect && most > n - 1) || (border == Border::circular && most > n)) return int(axis);
  }
  return std::nullopt;
}

// Why torch serves a call; "" if our kernels do. torch_conv/functional/_convolve.py says the same.
std::string why_torch(bool cuda, const Tensor& input, const Tensor& weight, const ConvOptions& o, int axes, bool here,
                      bool padding_fits) {
  if (o.algorithm == "torch") return "algorithm 'torch'";
  if (!here)
    return floating(input) ? "a matrix product of " + std::to_string(weight.size(1)) + " input and " +
                                 std::to_string(weight.size(0) / o.groups) + " output channels a group"
                           : "no kernel takes " + dtype_text(input.scalar_type());
  if (o.algorithm != "auto" || !padding_fits) return "";
  const char* why = torch_is_ahead(cuda, input, weight, o, axes);
  return why ? why : "";
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
  return algorithm == "direct" ? Sums::chain : algorithm == "tensor_core" ? Sums::products : Sums::any;
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
  if (o.activation != Activation::none && !floating(input))
    refuse(op, "activation must be None for an input of dtype ", dtype_text(input.scalar_type()));
  const Border border = padding_border(op, o.padding_mode);
  const int spatial = std::max(axes, 2);
  const bool here = served_here(input, weight, o.groups);
  check(here || (o.algorithm != "direct" && o.algorithm != "ours"), op, "algorithm '", o.algorithm,
        "' serves depthwise and few-channel floating-point convolutions only");
  const bool depthwise = here && axes <= 2 && weight.size(1) == 1 && o.groups > 1 && border == Border::constant;
  check(depthwise || o.algorithm != "tensor_core", op,
        "algorithm 'tensor_core' serves depthwise convolutions of images with zeros outside only");
  const std::vector<Pads> all = all_pads(op, o, weight);
  const std::optional<int> too_much = too_much_padding(input, all, border);
  // What serves the whole serves its parts.
  const std::string why =
      call.whole ? call.whole->by_torch : why_torch(on_cuda(call, input), input, weight, o, axes, here, !too_much);
  const bool torchs = !why.empty();
  Geometry g{.place = {.pad_y = 0, .pad_x = 0, .border = border}, .out = {.h = 1, .w = 1}};
  Placement& p = g.place;
  Extent reach{.h = 1, .w = 1}, padded{.h = 1, .w = 1};
  AxisReach* const along = call.reach.axis;
  const auto place_axis = [&](int from_end, int64_t& pad, int64_t& stride, int64_t& dilation, int64_t Extent::*axis) {
    if (from_end > axes) return;
    const int i = axes - from_end;
    const int64_t k = weight.size(2 + i);
    const Pads pads = pads_of(op, o, i, k);
    pad = pads.before, stride = o.stride[i], dilation = o.dilation[i];
    reach.*axis = dilation * (k - 1) + 1;
    padded.*axis = input.size(input.dim() - from_end) + pads.before + pads.after;
    g.out.*axis = (padded.*axis - reach.*axis) / stride + 1;
    along[kAxes - from_end] = {pad, reach.*axis, stride, (reach.*axis - 1) / 2 - pad, g.out.*axis};
  };
  place_axis(3, p.pad_z, p.stride_z, p.dilation_z, &Extent::d);
  place_axis(2, p.pad_y, p.stride_y, p.dilation_y, &Extent::h);
  place_axis(1, p.pad_x, p.stride_x, p.dilation_x, &Extent::w);
  if (reach.d > padded.d || reach.h > padded.h || reach.w > padded.w)
    refuse(op, "a window of ", extent_text(reach, spatial), " does not fit into the padded ",
           axes == 3 ? "volume of " : "image of ", extent_text(padded, spatial));
  if (torchs && too_much && !call.part) {
    const int64_t n = input.size(input.dim() - axes + *too_much);
    refuse(op, "padding must be at most ", border == Border::reflect ? n - 1 : n, " along an axis of ", n,
           " with padding_mode='", o.padding_mode, "', got ", std::max(all[*too_much].before, all[*too_much].after));
  }
  call.reach.border = border;
  settle(call, g);

  const Tensor images = axes == 1 ? with_height(input) : input;
  Sizes sizes = resized(images, g.out, spatial);
  sizes[sizes.size() - spatial - 1] = weight.size(0);
  const Sums sums = sums_of(o.algorithm);
  // What follows a launch follows it on one shard only; the room for depthwise convolutions reads no other shards.
  call.reach.direct = axes >= 2 && !torchs && o.activation == Activation::none && sums != Sums::products;
  call.reach.by_torch = why;
  call.reach.result = axes == 1 ? without_height(sizes) : sizes, call.reach.dtype = input.scalar_type();
  if (call.only_reach()) return input;
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
  const Place place(call, input);
  const Image out = *merge_leading(result, in.image.dtype, spatial);
  // Parts of an image are made by the chains of Direct, whose bits do not depend on where an image is cut.
  if (depthwise && (!call.part || sums == Sums::products)) {
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
    if (run_depthwise(call, place, input, problem)) return returned();
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
                 .beside = beside_of(call, in.image, axes)};
  if (o.activation == Activation::none) {
    run(call, place, input, problem);
    return returned();
  }
  // The kernels of `Direct` have no activation. Sums of 16-bit images stay in float32, so that one rounding remains.
  std::optional<Tensor> wide;
  if (is_half(out.dtype)) {
    wide = empty_result(call, images, sizes_of(result), spatial, sums_type);
    problem.out = *merge_leading(*wide, accumulation_dtype(out.dtype), spatial);
  }
  run(call, place, input, problem);
  run(call, place, input,
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

// Zeros outside and one number for all axes. What the functions call again and again: without lists and words a call
// takes the host a third less (6.4 us and 4.3, 3x3 on 3x3, AMD EPYC).
struct Numbers {
  int64_t axes, stride, padding, dilation, groups;
  Activation activation;

  const char* op() const {
    static constexpr const char* names[] = {"conv1d", "conv2d", "conv3d"};
    check(axes >= 1 && axes <= 3, "_conv", "axes must be 1, 2 or 3, got ", axes);
    return names[axes - 1];
  }

  // All in one, which torch reads faster than six: torch_conv/functional/_convolve.py packs them.
  static Numbers unpacked(int64_t word) {
    check(word >= 0, "_conv", "numbers must not be negative");
    const auto next = [&](int bits) {
      const int64_t number = word & ((int64_t(1) << bits) - 1);
      word >>= bits;
      return number;
    };
    const Numbers numbers{next(2), next(10), next(12), next(12), next(24), Activation(next(3))};
    check(numbers.activation <= Activation::hardswish, "_conv", "numbers hold no activation");
    return numbers;
  }
};

// Nothing where torch is ahead, if that is to be asked.
std::optional<Tensor> conv_of_numbers(bool ask, const Tensor& input, const Tensor& weight,
                                      const std::optional<Tensor>& bias, const Numbers& numbers) {
  Call call{numbers.op()};
  const auto compute = [&]() -> std::vector<Tensor> {
    const auto each_axis = [&](int64_t number) { return Sizes(numbers.axes, number); };
    ConvOptions o{each_axis(numbers.stride),
                  each_axis(numbers.padding),
                  {},
                  each_axis(numbers.dilation),
                  numbers.groups,
                  "zeros",
                  "auto"};
    o.activation = numbers.activation;
    if (ask) {
      Call question{.op = call.op, .purpose = Purpose::reach};
      conv(question, int(numbers.axes), input, weight, bias, o);
      if (!question.reach.by_torch.empty()) return {};
    }
    o.algorithm = "ours";
    return {conv(call, int(numbers.axes), input, weight, bias, o)};
  };
  const auto result = [](const std::vector<Tensor>& made) {
    return made.empty() ? std::nullopt : std::optional(made[0]);
  };
  if (!repeatable(call, input)) return result(compute());
  Signature signature("_conv", Signature::Form::whole, call);
  signature.add(input), signature.add(weight), signature.add(bias), signature.add(ask);
  const auto& [axes, stride, padding, dilation, groups, activation] = numbers;
  for (int64_t number : {axes, stride, padding, dilation, groups, int64_t(activation)}) signature.add(number);
  return result(run_recorded(call, signature, compute));
}

std::optional<Tensor> conv_if_ahead(Tensor input, Tensor weight, std::optional<Tensor> bias, int64_t packed) {
  return conv_of_numbers(true, input, weight, bias, Numbers::unpacked(packed));
}

Tensor conv_ours(Tensor input, Tensor weight, std::optional<Tensor> bias, int64_t axes, int64_t stride, int64_t padding,
                 int64_t dilation, int64_t groups, std::optional<std::string> activation) {
  Numbers numbers{axes, stride, padding, dilation, groups, Activation::none};
  numbers.activation = activation_of(numbers.op(), activation);
  return *conv_of_numbers(false, input, weight, bias, numbers);
}

void register_convolutions(torch::stable::detail::StableLibrary& m) {
  m.impl("_conv", boxed<&conv_if_ahead, "conv">);
  m.impl("_conv_ours", boxed<&conv_ours, "conv">);
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
