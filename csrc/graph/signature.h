// The signature of a call. Calls with equal signatures make the same launches.
#pragma once

#include "graph/call.h"

namespace torch_conv {

inline const char* address_of(const Tensor& t) { return static_cast<const char*>(t.data_ptr()); }

// The operator, its form and options, and all properties of its tensors but the values. An address counts by its
// alignment. The recorded graph has a guard if launches also depend on values. Only named derivatives have constant
// taps in their plans, and the name is one of the options.
class Signature {
 public:
  enum class Form : int8_t { image, shards };

  explicit Signature(const std::vector<Tensor>& tensors) { add(tensors); }  // of tensors alone
  Signature(const char* op, Form form, const Call& call);                   // without the call's OnShards

  void add(const Tensor& t);
  void add(const std::string& text) { add(int64_t(text.size())), text_ += text; }
  void add(double number) { put(&number, sizeof(number)); }
  void add(int64_t number) { put(&number, sizeof(number)); }
  void add(bool flag) { add(int64_t(flag)); }
  void add(ScalarType type) { add(int64_t(type)); }
  template <typename T>
  void add(const std::vector<T>& values) {
    add(int64_t(values.size()));
    for (const T& value : values) add(value);
  }
  template <typename T>
  void add(const std::optional<T>& value) {
    add(value.has_value());
    if (value) add(*value);
  }

  const std::string& text() const { return text_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  void put(const void* bytes, size_t count) { text_.append(static_cast<const char*>(bytes), count); }

  std::string text_;
  std::vector<Tensor> tensors_;
};

}  // namespace torch_conv
