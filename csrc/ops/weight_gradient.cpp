// The gradients of a depthwise convolution in its weight and its bias: checks, then a problem of their room. What the
// room does not serve is left to torch, with an empty list. Fewer outputs than the padding allows: the last ones are
// not there (less padding after an image than before it).
#include "ops/images.h"
#include "ops/launch_steps.h"
#include "weight_gradient/problem.h"
#include "weight_gradient/room.h"

namespace torch_conv {

namespace {

constexpr Doors<WeightGradient> kDoors{nullptr, nullptr, weight_gradient::plan_cuda, weight_gradient::run_cuda};

// A signal whose channels lie innermost is an image of one column, others are images of one row.
struct Operands {
  Tensor input, grad;
  Sizes kernel, stride, padding;

  Operands(const Tensor& input, const Tensor& grad, const Sizes& kernel, const Sizes& stride, const Sizes& padding)
      : input(input), grad(grad), kernel(kernel), stride(stride), padding(padding) {
    if (input.dim() == 4) return;
    const bool column = input.stride(1) == 1 && input.size(1) > 1;
    const auto image = [&](const Tensor& t) { return torch::stable::unsqueeze(t, column ? 3 : 2); };
    const auto add = [&](Sizes& values, int64_t value) { values.insert(values.begin() + column, value); };
    this->input = image(input), this->grad = image(grad);
    add(this->kernel, 1), add(this->stride, 1), add(this->padding, 0);
  }
};

// Does the gradient lie as the image does, so that one kernel reads both well?
bool lie_alike(const Image& in, const Image& grad) {
  if (weight_gradient::channels_inner(in)) return weight_gradient::channels_inner(grad);
  return grad.stride_w == 1 || grad.w == 1;
}

// A copy with channels innermost, or dense.
Tensor laid_out(const Tensor& t, bool channels_inner) {
  if (!channels_inner) return torch::stable::contiguous(t);
  const int64_t c = t.size(1), h = t.size(2), w = t.size(3);
  Tensor copy = empty_strided(device_of(t), sizes_of(t), {h * w * c, 1, w * c, c}, t.scalar_type());
  torch::stable::copy_(copy, t);
  return copy;
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
  ImageView out = view_input(call, o.grad, 2);
  if (!lie_alike(in.image, out.image)) {
    const bool inner = weight_gradient::channels_inner(in.image);
    const auto make = [inner](const Tensor& t) { return laid_out(t, inner); };
    out = view_input(call, make_of(call, o.grad, o.grad, sizes_of(o.grad), grad.scalar_type(), make), 2);
  }
  const Place place(call, input);
  Sizes window{grad.size(1), 1};
  window.insert(window.end(), kernel.begin(), kernel.end());
  const Tensor weight = allocate(call, input, window, input.scalar_type());
  const Tensor bias = allocate(call, input, {grad.size(1)}, input.scalar_type());
  const WeightGradient problem{
      .in = in.image,
      .grad = out.image,
      .weight = weight.data_ptr(),
      .bias = bias.data_ptr(),
      .kh = o.kernel[0],
      .kw = o.kernel[1],
      .place = {.pad_y = o.padding[0], .pad_x = o.padding[1], .stride_y = o.stride[0], .stride_x = o.stride[1]}};
  const auto planned = plan_of(call, place, problem, kDoors, environment("TORCH_CONV_VARIANT"));
  if (planned->plan.variant) run_plan(call, place, input, problem, kDoors, planned);
  else if (call.lines) call.explain("left to torch: " + std::string(planned->plan.why));
  return planned->plan.variant ? std::vector<Tensor>{weight, bias} : std::vector<Tensor>{};
}

std::vector<Tensor> run(Tensor input, Tensor grad, Sizes kernel, Sizes stride, Sizes padding) {
  Call call{"_weight_gradient"};
  const auto first = [&] { return gradients(call, input, grad, kernel, stride, padding); };
  if (!repeatable(call, input)) return first();
  Signature signature(call.op, Signature::Form::whole, call);
  signature.add(input), signature.add(grad), signature.add(kernel), signature.add(stride), signature.add(padding);
  return run_by_steps(call, signature, first);
}

std::string plans(Tensor input, Tensor grad, Sizes kernel, Sizes stride, Sizes padding) {
  std::string lines;
  Call call{.op = "_weight_gradient", .purpose = Purpose::explain, .lines = &lines};
  gradients(call, input, grad, kernel, stride, padding);
  return lines;
}

void register_operators(torch::stable::detail::StableLibrary& m) {
  m.impl("_weight_gradient", TORCH_BOX(&run));
  m.impl("_weight_gradient_explain", TORCH_BOX(&plans));
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_operators(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_operators(m); }

}  // namespace torch_conv
