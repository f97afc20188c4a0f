// The gradients of a depthwise convolution in its weight and its bias: checks, then a problem of their kernel family.
// An empty list leaves the gradients to torch. The last outputs may be absent: the padding after an image is then
// smaller than the padding before it.
#include "api/query.h"
#include "dispatch/dispatch.h"
#include "graph/graph_cache.h"
#include "sharding/part.h"
#include "tensors/boxed.h"
#include "tensors/images.h"

namespace torch_conv {

namespace {

// A signal with channels innermost is an image of one column; other signals are images of one row.
struct Operands {
  int64_t new_axis;  // the added dimension of a signal, or 0
  Tensor input, grad;
  Sizes kernel, stride, padding;

  Operands(const Tensor& input, const Tensor& grad, const Sizes& kernel, const Sizes& stride, const Sizes& padding)
      : new_axis(input.dim() == 4                            ? 0
                 : input.stride(1) == 1 && input.size(1) > 1 ? 3
                                                             : 2),
        input(image(input, new_axis)),
        grad(image(grad, new_axis)),
        kernel(kernel),
        stride(stride),
        padding(padding) {
    if (new_axis == 0) return;
    const auto add = [&](Sizes& values, int64_t value) { values.insert(values.begin() + (new_axis - 2), value); };
    add(this->kernel, 1), add(this->stride, 1), add(this->padding, 0);
  }
  static Tensor image(const Tensor& t, int64_t new_axis) {
    return new_axis == 0 ? t : torch::stable::unsqueeze(t, new_axis);
  }
};

// Whether the gradient has the image's layout.
bool same_layout(const Image& in, const Image& grad) {
  if (weight_gradient::channels_innermost(in)) return weight_gradient::channels_innermost(grad);
  return grad.stride_w == 1 || grad.w == 1;
}

// An image without memory that has the strides of a dense copy.
Image dense_like(Image image, bool channels_inner) {
  image.data = nullptr;
  image.stride_c = channels_inner ? 1 : image.h * image.w;
  image.stride_w = channels_inner ? image.c : 1;
  image.stride_h = image.w * image.stride_w;
  image.stride_n = image.c * image.h * image.w;
  return image;
}

std::vector<Tensor> gradients(Call& call, const Tensor& input, const Tensor& grad, const Sizes& kernel,
                              const Sizes& stride, const Sizes& padding) {
  const char* op = call.op;
  const int64_t axes = int64_t(kernel.size());
  check(axes == 1 || axes == 2, op, "kernel_size must have 1 or 2 values, got ", axes);
  check(input.dim() == axes + 2 && grad.dim() == axes + 2, op, "input and grad must have ", axes + 2, " dimensions");
  check_per_axis(op, "kernel_size", kernel, int(axes));
  check_per_axis(op, "stride", stride, int(axes));
  check_positive(op, "kernel_size", kernel);
  check_positive(op, "stride", stride);
  check(int64_t(padding.size()) == axes, op, "padding must have ", axes, " values, got ", padding.size());
  check(input.scalar_type() == grad.scalar_type(), op, "grad must have the input's dtype ",
        dtype_text(input.scalar_type()), ", got ", dtype_text(grad.scalar_type()));
  if (!same_device(input, grad)) refuse(op, "grad must be on ", device_text(input), ", got ", device_text(grad));
  check(input.size(1) > 0 && grad.size(1) % input.size(1) == 0 && grad.size(0) == input.size(0), op,
        "grad must have the input's samples and a multiple of its channels");
  const auto dtype = dtype_or_none(input.scalar_type());
  if (!dtype || !on_cuda(call, input) || input.numel() == 0 || grad.numel() == 0) return {};

  const Operands o(input, grad, kernel, stride, padding);
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t padded = o.input.size(2 + axis) + 2 * o.padding[axis];
    check(o.padding[axis] >= 0 && padded >= o.kernel[axis] &&
              o.grad.size(2 + axis) <= (padded - o.kernel[axis]) / o.stride[axis] + 1,
          op, "grad must not be larger than the convolution's outputs, got shape ", shape_text(sizes_of(grad)));
  }
  const ImageView in = view_input(call, o.input, 2);
  ImageView grad_view = view_input(call, o.grad, 2);
  const bool copied = !same_layout(in.image, grad_view.image);
  WeightGradient problem{
      .in = in.image,
      .grad = grad_view.image,
      .weight = nullptr,
      .bias = nullptr,
      .kh = o.kernel[0],
      .kw = o.kernel[1],
      .place = {.pad_y = o.padding[0], .pad_x = o.padding[1], .stride_y = o.stride[0], .stride_x = o.stride[1]}};
  if (copied) problem.grad = dense_like(grad_view.image, weight_gradient::channels_innermost(in.image));
  const Target target(call, input);
  Decision<WeightGradient> d = dispatch(target, problem);
  if (!d.serves()) {
    if (call.lines) call.explain("left to torch: " + std::string(d.plan->why));
    return {};
  }
  if (copied) {
    const Image& layout = problem.grad;
    const Sizes sizes = sizes_of(o.grad), strides{layout.stride_n, layout.stride_c, layout.stride_h, layout.stride_w};
    const auto make = [sizes, strides, new_axis = o.new_axis](const Tensor& from) {
      Tensor copy = empty_strided(device_of(from), sizes, strides, from.scalar_type());
      torch::stable::copy_(copy, Operands::image(from, new_axis));
      return copy;
    };
    grad_view = view_input(call, derive(call, grad, grad, sizes, grad.scalar_type(), make), 2);
    problem.grad.data = grad_view.image.data;  // a query's placeholder has other strides
  }
  Sizes window{grad.size(1), 1};
  window.insert(window.end(), kernel.begin(), kernel.end());
  const Tensor weight = allocate(call, input, window, input.scalar_type());
  const Tensor bias = allocate(call, input, {grad.size(1)}, input.scalar_type());
  problem.weight = weight.data_ptr(), problem.bias = bias.data_ptr();
  d.problem = problem;
  launch(call, target, d);
  return {weight, bias};
}

std::vector<Tensor> run(Tensor input, Tensor grad, Sizes kernel, Sizes stride, Sizes padding) {
  Call call{"_weight_gradient"};
  const auto first = [&] { return gradients(call, input, grad, kernel, stride, padding); };
  if (!repeatable(call, input)) return first();
  Signature signature = signature_of(call.op, Signature::Form::image, call);
  signature.add(input), signature.add(grad), signature.add(kernel), signature.add(stride), signature.add(padding);
  return run_recorded(call, signature, first);
}

Sizes query(std::string question, Tensor input, Tensor grad, Sizes kernel, Sizes stride, Sizes padding) {
  return answer("_weight_gradient", question,
                [&](Call& call) { gradients(call, input, grad, kernel, stride, padding); });
}

void register_operators(torch::stable::detail::StableLibrary& m) {
  m.impl("_weight_gradient", boxed<&run, "_weight_gradient">);
  m.impl("_weight_gradient_query", boxed<&query, "_weight_gradient">);
}

}  // namespace

// Empty lists where our kernels do not serve the gradients. Python implements `_or_torch`.
STABLE_TORCH_LIBRARY_FRAGMENT(torch_conv, m) {
  const std::string arguments = "Tensor input, Tensor grad, SymInt[] kernel_size, SymInt[] stride, SymInt[] padding)";
  m.def(("_weight_gradient(" + arguments + " -> Tensor[]").c_str());
  m.def(("_weight_gradient_or_torch(" + arguments + " -> (Tensor, Tensor)").c_str());
  m.def(("_weight_gradient_query(str question, " + arguments + " -> int[]").c_str());
}

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_operators(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

}  // namespace torch_conv
