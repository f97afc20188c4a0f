// The operator layer's checks: every refusal of the library is one sentence made here or with refuse().
#pragma once

#include <initializer_list>
#include <sstream>
#include <stdexcept>

#include "core/problem.h"
#include "tensors/torch_api.h"

namespace torch_conv {

// "filter2d: kernel must have 2, 3 or 4 dimensions, got 5". Operators raise it as RuntimeError; torch_conv.functional
// turns it into ValueError, or TypeError where the sentence speaks of a dtype.
template <typename... Parts>
[[noreturn]] void refuse(const char* op, const Parts&... parts) {
  std::ostringstream sentence;
  sentence << op << ": ";
  (sentence << ... << parts);
  throw std::runtime_error(sentence.str());
}

template <typename... Parts>
void check(bool ok, const char* op, const Parts&... parts) {
  if (!ok) [[unlikely]]
    refuse(op, parts...);
}

std::string shape_text(const Sizes& sizes);               // "(2, 3)"
std::string extent_text(const Extent& extent, int axes);  // "2x3"
std::string dtype_text(ScalarType type);                  // "float32"
std::string device_text(const Tensor& t);                 // "cpu", "cuda:0"
bool same_device(const Tensor& a, const Tensor& b);

std::optional<Dtype> dtype_or_none(ScalarType type);
Dtype dtype_of(const char* op, const char* argument, ScalarType type);  // refuses what no kernel takes
ScalarType scalar_type_of(Dtype dtype);
// The dtype of sums: float64 for float64 images, else float32.
inline ScalarType accumulation_type(Dtype image) {
  return image == Dtype::f64 ? ScalarType::Double : ScalarType::Float;
}
inline Dtype accumulation_dtype(Dtype image) { return image == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

Border border_of(const char* op, const std::string& name);
bool is_valid_padding(const char* op, const std::string& padding);  // 'valid' true, 'same' false, else refused
// Which of the allowed words an argument is; refused where it is none of them.
size_t word_of(const char* op, const char* argument, const std::string& word, std::span<const char* const> allowed);
void check_algorithm(const char* op, const std::string& algorithm, std::span<const char* const> allowed);

// How a filter is made. The argument `algorithm` names all but the last: `depthwise` filters channels that have windows
// of their own as a depthwise convolution.
enum class Algorithm : int8_t { automatic, direct, tensor_core, fft, low_rank, separable, fused, box, depthwise };
// The algorithm that an argument names; refused where it is none of those allowed.
Algorithm algorithm_of(const char* op, const std::string& word, std::initializer_list<Algorithm> allowed);
// The order of sums that an algorithm asks for. Chains in one launch have the bits of their steps.
inline Sums sums_of(Algorithm algorithm) {
  if (algorithm == Algorithm::tensor_core) return Sums::mma;
  const bool any = algorithm == Algorithm::automatic || algorithm == Algorithm::fft || algorithm == Algorithm::low_rank;
  return any ? Sums::any : Sums::chain;
}
// Window sizes, strides, dilations and padding beyond this are refused, so that no product of two of them overflows.
constexpr int64_t kLargest = (int64_t(1) << 31) - 1;

// A window extent, stride, dilation or block: every value at least 1 and at most kLargest.
void check_positive(const char* op, const char* argument, const Sizes& values);
// The same, of exactly `axes` values: a schema's int[2] takes a single int for both, but also a list of any length.
void check_per_axis(const char* op, const char* argument, const Sizes& values, int axes);

}  // namespace torch_conv
