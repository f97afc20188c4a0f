// The arguments of conv1d, conv2d and conv3d: names turned into values, and refusals.
#include "api/conv.h"

namespace torch_conv {

namespace {

void check_same_dtype(const char* op, const char* argument, const Tensor& t, const Tensor& input) {
  if (t.scalar_type() != input.scalar_type())
    refuse(op, argument, " must have the input's dtype ", dtype_text(input.scalar_type()), ", got ",
           dtype_text(t.scalar_type()));
}

void check_bias(const char* op, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  check(bias.dim() == 1 && bias.size(0) == weight.size(0), op, "bias must have shape (", weight.size(0), ",), got ",
        shape_text(sizes_of(bias)));
  check_same_dtype(op, "bias", bias, input);
  if (!same_device(bias, input)) refuse(op, "bias must be on ", device_text(input), ", got ", device_text(bias));
}

}  // namespace

Border padding_border(const char* op, const std::string& mode) {
  if (mode == "zeros") return Border::constant;
  if (mode == "reflect") return Border::reflect;
  if (mode == "replicate") return Border::replicate;
  if (mode == "circular") return Border::circular;
  refuse(op, "padding_mode must be 'zeros', 'reflect', 'replicate' or 'circular', got '", mode, "'");
}

Activation activation_of(const char* op, const std::optional<std::string>& name) {
  if (!name) return Activation::none;
  if (*name == "relu") return Activation::relu;
  if (*name == "relu6") return Activation::relu6;
  if (*name == "gelu") return Activation::gelu;
  if (*name == "silu") return Activation::silu;
  if (*name == "hardswish") return Activation::hardswish;
  refuse(op, "activation must be None, 'relu', 'relu6', 'gelu', 'silu' or 'hardswish', got '", *name, "'");
}

void check_conv(const char* op, const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                const ConvOptions& o, int axes) {
  static constexpr const char* algorithms[] = {"auto", "ours", "direct", "tensor_core", "torch"};
  check_algorithm(op, o.algorithm, algorithms);
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
  if (o.padding_name && !is_valid_padding(op, *o.padding_name))
    for (int64_t s : o.stride) check(s == 1, op, "padding='same' needs stride 1, got ", s);
  const bool no_images = input.dim() == axes + 2 && input.size(0) == 0;  // they may have no pixels, as in F.convNd
  for (int axis = 0; axis < axes; ++axis) {
    if (input.size(input.dim() - axes + axis) < 1 && !no_images)
      refuse(op, "input must have at least one pixel an axis, got shape ", shape_text(sizes_of(input)));
    if (weight.size(2 + axis) < 1)
      refuse(op, "weight must have at least one tap, got shape ", shape_text(sizes_of(weight)));
  }
  if (bias) check_bias(op, input, weight, *bias);
  const auto dtype = dtype_or_none(input.scalar_type());
  if (o.activation != Activation::none && (!dtype || is_integer(*dtype)))
    refuse(op, "activation must be None for an input of dtype ", dtype_text(input.scalar_type()));
}

}  // namespace torch_conv
