// torch_conv's operators in a C++ program: load the library once, then call operators by name.
//
//     torch_conv::load_library("torch_conv/_C.abi3.so");
//     at::Tensor sharp = torch_conv::call("filter2d", {image, window}, {{"border_type", "replicate"}}).toTensor();
//
// The library is named like a Python module but refers to nothing of Python. It registers forward operators for CPU and
// CUDA; their gradients are registered in Python, so call them without autograd (c10::InferenceMode). Operators,
// arguments and defaults stand in csrc/api, in the file of each family.
#pragma once

#include <ATen/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <ATen/ops/empty.h>
#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace torch_conv {

using Named = std::unordered_map<std::string, c10::IValue>;

// Registers the operators with the dispatcher. TorchScript modules and AOTInductor packages that use them are loaded
// after this, for both look the operators up while they load. It is never unloaded: the dispatcher refers to it.
inline void load_library(const std::string& path) {
  if (!dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) throw std::runtime_error(dlerror());
}

// torch.ops.torch_conv.NAME(*inputs, **named): what is left out takes the schema's default. Returns the operator's
// result; a tuple where it has several.
inline c10::IValue call(const std::string& name, std::vector<c10::IValue> inputs, const Named& named = {}) {
  const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(("torch_conv::" + name).c_str(), "");
  op.schema().checkAndNormalizeInputs(inputs, named);
  op.callBoxed(inputs);  // takes the inputs off the vector and leaves the results
  return inputs.size() == 1 ? std::move(inputs[0]) : c10::ivalue::Tuple::create(std::move(inputs));
}

// A Gaussian of `sigma` pixels, sampled at `size` places around the middle of the window and divided by its sum:
// exp(-x^2 / (2 sigma^2)), x = i - (size - 1) / 2. The nearest tap's square is taken off all, which changes nothing
// after the division and keeps the sum of a tiny sigma above 0. It is torch_conv.kernels.gaussian1d; on the CPU, also
// for images on a GPU: taps travel with the launch.
inline at::Tensor gaussian_taps(int64_t size, double sigma, at::ScalarType dtype = at::kFloat) {
  TORCH_CHECK_VALUE(size >= 1, "gaussian_taps: size must be at least 1, got ", size);
  TORCH_CHECK_VALUE(sigma > 0, "gaussian_taps: sigma must be above 0, got ", sigma);
  at::Tensor taps = at::empty({size}, at::kDouble);
  double* tap = taps.data_ptr<double>();
  double total = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double x = static_cast<double>(i) - 0.5 * static_cast<double>(size - 1);
    const double nearest = size % 2 == 0 ? 0.25 : 0.0;
    tap[i] = std::exp(-0.5 * ((x * x - nearest) / sigma) / sigma);
    total += tap[i];
  }
  for (int64_t i = 0; i < size; ++i) tap[i] /= total;
  return taps.to(dtype);
}

// torch_conv.gaussian_blur2d(image, size, sigma, algorithm="separable"): rows, then columns.
inline at::Tensor gaussian_blur2d(const at::Tensor& image, int64_t size, double sigma,
                                  const std::string& border_type = "reflect") {
  const at::Tensor taps = gaussian_taps(size, sigma, image.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  return call("filter2d_separable", {image, taps, taps}, {{"border_type", border_type}}).toTensor();
}

}  // namespace torch_conv
