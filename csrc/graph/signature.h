// The signature of a call: equal signatures take the same launches.
#pragma once

#include "tensors/call.h"

namespace torch_conv {

inline const char* address_of(const Tensor& t) { return static_cast<const char*>(t.data_ptr()); }

// The operator and its form, its options, and of its tensors everything but the values; of memory its alignment. Where
// values decide too, the recorded graph has a guard. Plans that hold taps as constants hold those of named derivatives,
// which the options tell.
class Signature {
 public:
  enum class Form : int8_t { whole, shards };

  Signature(const char* op, Form form, const Call& call);
  explicit Signature(const std::vector<Tensor>& tensors) { add(tensors); }  // of these alone

  void add(const Tensor& t);
  void add(const std::string& words) { add(int64_t(words.size())), text_ += words; }
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
