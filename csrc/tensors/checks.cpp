#include "tensors/checks.h"

#include <algorithm>
#include <utility>

namespace torch_conv {

std::string shape_text(const Sizes& sizes) {
  std::ostringstream text;
  text << '(';
  for (size_t i = 0; i < sizes.size(); ++i) text << (i ? ", " : "") << sizes[i];
  text << (sizes.size() == 1 ? ",)" : ")");
  return text.str();
}

std::string device_text(const Tensor& t) {
  if (t.is_cpu()) return "cpu";
  if (t.is_cuda()) return "cuda:" + std::to_string(t.get_device_index());
  return "another kind of device";
}

bool same_device(const Tensor& a, const Tensor& b) {
  return a.is_cuda() == b.is_cuda() && a.is_cpu() == b.is_cpu() && a.get_device_index() == b.get_device_index();
}

std::optional<Dtype> dtype_or_none(ScalarType type) {
  switch (type) {
    case ScalarType::Float: return Dtype::f32;
    case ScalarType::Half: return Dtype::f16;
    case ScalarType::BFloat16: return Dtype::bf16;
    case ScalarType::Double: return Dtype::f64;
    case ScalarType::Byte: return Dtype::u8;
    case ScalarType::Short: return Dtype::i16;
    case ScalarType::UInt16: return Dtype::u16;
    default: return std::nullopt;
  }
}

std::string dtype_text(ScalarType type) {
  if (auto dtype = dtype_or_none(type)) return name_of(*dtype);
  // torch's names in Python; its C++ names are "Int", "ComplexFloat" and the like.
  switch (type) {
    case ScalarType::Char: return "int8";
    case ScalarType::Int: return "int32";
    case ScalarType::Long: return "int64";
    case ScalarType::Bool: return "bool";
    case ScalarType::UInt32: return "uint32";
    case ScalarType::UInt64: return "uint64";
    case ScalarType::ComplexHalf: return "complex32";
    case ScalarType::ComplexFloat: return "complex64";
    case ScalarType::ComplexDouble: return "complex128";
    case ScalarType::Float8_e5m2: return "float8_e5m2";
    case ScalarType::Float8_e4m3fn: return "float8_e4m3fn";
    case ScalarType::Float8_e5m2fnuz: return "float8_e5m2fnuz";
    case ScalarType::Float8_e4m3fnuz: return "float8_e4m3fnuz";
    case ScalarType::Float8_e8m0fnu: return "float8_e8m0fnu";
    default: return torch::headeronly::toString(type);
  }
}

Dtype dtype_of(const char* op, const char* argument, ScalarType type) {
  if (auto dtype = dtype_or_none(type)) return *dtype;
  refuse(op, argument, " must have dtype float32, float16, bfloat16, float64, uint8, int16 or uint16, got ",
         dtype_text(type));
}

ScalarType scalar_type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return ScalarType::Float;
    case Dtype::f16: return ScalarType::Half;
    case Dtype::bf16: return ScalarType::BFloat16;
    case Dtype::f64: return ScalarType::Double;
    case Dtype::u8: return ScalarType::Byte;
    case Dtype::i16: return ScalarType::Short;
    case Dtype::u16: return ScalarType::UInt16;
  }
  __builtin_unreachable();
}

std::vector<std::string> borders_with_aliases() {
  std::vector<std::string> rows(kBorders);
  for (int i = 0; i < kBorders; ++i)
    for (const char* name : rule_of(Border(i)).names)
      if (name) rows[i] += (rows[i].empty() ? "" : " ") + std::string(name);
  return rows;
}

Border border_of(const char* op, const std::string& name) {
  std::vector<const char*> names;
  for (int i = 0; i < kBorders; ++i) {
    for (const char* known : rule_of(Border(i)).names)
      if (known && name == known) return Border(i);
    names.push_back(name_of(Border(i)));
  }
  return Border(name_index(op, "border_type", name, names));
}

bool is_valid_padding(const char* op, const std::string& padding) {
  check(padding == "same" || padding == "valid", op, "padding must be 'same' or 'valid', got '", padding, "'");
  return padding == "valid";
}

size_t name_index(const char* op, const char* argument, const std::string& name, std::span<const char* const> allowed) {
  const auto found = std::find(allowed.begin(), allowed.end(), name);
  if (found != allowed.end()) return found - allowed.begin();
  std::string list;
  for (size_t i = 0; i < allowed.size(); ++i)
    list += (i == 0 ? "'" : i + 1 == allowed.size() ? " or '" : ", '") + std::string(allowed[i]) + "'";
  refuse(op, argument, " must be ", list, ", got '", name, "'");
}

void check_algorithm(const char* op, const std::string& algorithm, std::span<const char* const> allowed) {
  name_index(op, "algorithm", algorithm, allowed);
}

Algorithm algorithm_of(const char* op, const std::string& name, std::initializer_list<Algorithm> allowed) {
  static constexpr const char* names[] = {"auto",     "direct",    "tensor_core", "fft",
                                          "low_rank", "separable", "fused",       "box"};
  std::vector<const char*> allowed_names;
  for (const Algorithm one : allowed) allowed_names.push_back(names[int(one)]);
  return allowed.begin()[name_index(op, "algorithm", name, allowed_names)];
}

void check_positive(const char* op, const char* argument, const Sizes& values) {
  for (int64_t v : values) {
    check(v >= 1, op, argument, " must be at least 1, got ", v);
    check(v <= kLargest, op, argument, " must be at most ", kLargest, ", got ", v);
  }
}

void check_per_axis(const char* op, const char* argument, const Sizes& values, int axes) {
  check(int(values.size()) == axes, op, argument, " must have ", axes, " values, got ", values.size());
  check_positive(op, argument, values);
}

}  // namespace torch_conv
