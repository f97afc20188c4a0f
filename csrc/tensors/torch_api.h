// The only includes of libtorch: stable-ABI headers, the Tensor alias, and calls without a name in the stable API.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wswitch"  // an error in this project (setup.py)
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#pragma GCC diagnostic pop

#include <array>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace torch_conv {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using Sizes = std::vector<int64_t>;

inline Sizes sizes_of(const Tensor& t) {
  auto s = t.sizes();
  return {s.begin(), s.end()};
}

inline Sizes strides_of(const Tensor& t) {
  auto s = t.strides();
  return {s.begin(), s.end()};
}

struct Device {
  int32_t type, index;
};
Device device_of(const Tensor& t);

struct OutOfMemory : std::runtime_error {
  explicit OutOfMemory(const std::string& action = "allocating a result", const std::string& more = "")
      : std::runtime_error("torch_conv: " + action + " failed: out of memory" + more) {}
};

// An uninitialised tensor of torch's caching allocator. Throws OutOfMemory.
Tensor empty_strided(Device device, const Sizes& sizes, const Sizes& strides, ScalarType dtype);
Sizes contiguous_strides(const Sizes& sizes);

inline Tensor narrow(const Tensor& t, int64_t dim, int64_t begin, int64_t size) {
  Tensor handle = t;  // torch::stable::narrow takes no const tensor
  return torch::stable::narrow(handle, dim, begin, size);
}

// Calls an ATen operator with one result. Arguments must have exactly the schema's types.
template <typename... Args>
Tensor call_aten(const char* name, const char* overload, const Args&... args) {
  std::array<StableIValue, sizeof...(Args)> stack{torch::stable::detail::from(args)...};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(name, overload, stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

}  // namespace torch_conv
