// Convolutions with one number for all axes and zeros outside, for the Python functions. Without lists and strings a
// call takes the host 4.3 instead of 6.4 us (3x3 on 3x3, AMD EPYC).
#include "api/conv.h"
#include "graph/graph_cache.h"
#include "sharding/part.h"
#include "tensors/boxed.h"

namespace torch_conv {

namespace {

struct Numbers {
  int64_t axes, stride, padding, dilation, groups;
  Activation activation;

  const char* op() const {
    static constexpr const char* names[] = {"conv1d", "conv2d", "conv3d"};
    check(axes >= 1 && axes <= 3, "_conv", "axes must be 1, 2 or 3, got ", axes);
    return names[axes - 1];
  }

  // torch reads one number faster than six. torch_conv/functional/_convolve.py packs them.
  static Numbers unpacked(int64_t packed) {
    check(packed >= 0, "_conv", "numbers must not be negative");
    const auto next = [&](int bits) {
      const int64_t number = packed & ((int64_t(1) << bits) - 1);
      packed >>= bits;
      return number;
    };
    const Numbers numbers{next(2), next(10), next(12), next(12), next(24), Activation(next(3))};
    check(numbers.activation <= Activation::hardswish, "_conv", "numbers hold no activation");
    return numbers;
  }
};

// Returns nothing if torch is faster. Without `ask` our kernels serve the call in any case.
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
      Call question{.op = call.op, .purpose = Purpose::footprint};
      conv(question, int(numbers.axes), input, weight, bias, o);
      if (!question.footprint.by_torch.empty()) return {};
    }
    o.algorithm = "ours";
    return {conv(call, int(numbers.axes), input, weight, bias, o)};
  };
  const auto result = [](const std::vector<Tensor>& results) {
    return results.empty() ? std::nullopt : std::optional(results[0]);
  };
  if (!repeatable(call, input)) return result(compute());
  Signature signature = signature_of("_conv", Signature::Form::image, call);
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
}

}  // namespace

// `_conv` returns None where torch is faster; `_conv_ours` does not ask for the route.
STABLE_TORCH_LIBRARY_FRAGMENT(torch_conv, m) {
  m.def("_conv(Tensor input, Tensor weight, Tensor? bias, int numbers) -> Tensor?");
  m.def(
      "_conv_ours(Tensor input, Tensor weight, Tensor? bias, int axes, SymInt stride, SymInt padding, SymInt dilation, "
      "SymInt groups, str? activation=None) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CPU, m) { register_convolutions(m); }
STABLE_TORCH_LIBRARY_IMPL(torch_conv, CUDA, m) { register_convolutions(m); }

}  // namespace torch_conv
