// The checks of the operator layer. `refuse` makes every refusal of the library, one sentence each.
#pragma once

#include <initializer_list>
#include <sstream>
#include <stdexcept>

#include "core/problem.h"
#include "tensors/torch_api.h"

namespace torch_conv {

// Throws "filter2d: kernel must have 2, 3 or 4 dimensions, got 5". Operators raise a RuntimeError.
// torch_conv.functional turns the error into ValueError, or into TypeError if the sentence names a dtype.
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

std::string shape_text(const Sizes& sizes);  // "(2, 3)"
std::string dtype_text(ScalarType type);     // "float32"
std::string device_text(const Tensor& t);    // "cpu", "cuda:0"
bool same_device(const Tensor& a, const Tensor& b);

std::optional<Dtype> dtype_or_none(ScalarType type);
Dtype dtype_of(const char* op, const char* argument, ScalarType type);  // refuses a type that no kernel takes
ScalarType scalar_type_of(Dtype dtype);
// The dtype of sums: float64 for float64 images, else float32.
inline ScalarType accumulation_type(Dtype image) {
  return image == Dtype::f64 ? ScalarType::Double : ScalarType::Float;
}
inline Dtype accumulation_dtype(Dtype image) { return image == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

std::vector<std::string> borders_with_aliases();  // "constant zeros", in the order of Border
Border border_of(const char* op, const std::string& name);
bool is_valid_padding(const char* op, const std::string& padding);  // 'valid' true, 'same' false, else refused
// The index of an argument's value among the allowed names; refuses other values.
size_t name_index(const char* op, const char* argument, const std::string& name, std::span<const char* const> allowed);
void check_algorithm(const char* op, const std::string& algorithm, std::span<const char* const> allowed);

// The algorithms of a filter. The argument `algorithm` names all but `depthwise`: a depthwise convolution for channels
// with a window each.
enum class Algorithm : int8_t { automatic, direct, tensor_core, fft, low_rank, separable, fused, box, depthwise };
// The algorithm that an argument names; refuses names that are not allowed.
Algorithm algorithm_of(const char* op, const std::string& name, std::initializer_list<Algorithm> allowed);
// The order of sums of an algorithm. Fused chains have the bits of their steps.
inline Sums sums_of(Algorithm algorithm) {
  if (algorithm == Algorithm::tensor_core) return Sums::mma;
  const bool any = algorithm == Algorithm::automatic || algorithm == Algorithm::fft || algorithm == Algorithm::low_rank;
  return any ? Sums::any : Sums::chain;
}
// The largest window size, stride, dilation and padding. The product of two such numbers does not overflow.
constexpr int64_t kLargest = (int64_t(1) << 31) - 1;

// Every value of a window extent, stride, dilation or block is at least 1 and at most kLargest.
void check_positive(const char* op, const char* argument, const Sizes& values);
// check_positive() for exactly `axes` values. A schema's int[2] takes one int for both, but also a list of any length.
void check_per_axis(const char* op, const char* argument, const Sizes& values, int axes);

}  // namespace torch_conv
