// Operators that write into an argument, called with tensors that torch negates or conjugates lazily (`z.conj().imag`).
// torch's kernels for these tensors look for the written argument among the results, and abort where it is not.
#pragma once

#include "tensors/boxed.h"

namespace torch_conv {

// Registers a kernel for the dispatch keys Negative and Conjugate; once, however often it is called.
void register_for_lazy_bits(const std::string& name, void (*kernel)(StableIValue*, uint64_t, uint64_t));

// A tensor that is read, with its numbers in memory.
void resolve(Tensor& t);
void resolve(std::vector<Tensor>& tensors);
inline void resolve(std::optional<Tensor>& t) {
  if (t) resolve(*t);
}
template <typename Other>
void resolve(const Other&) {}

// The memory of a tensor that is written. Where the tensor is negated lazily, what the function writes is negated after
// it, so that the tensor reads as it should.
class WrittenMemory {
 public:
  WrittenMemory(Tensor& written, bool read_too);  // `written` becomes a view of its memory without a lazy bit
  WrittenMemory(const WrittenMemory&) = delete;
  ~WrittenMemory();  // a function that has thrown leaves the tensor as it was
  void finish();

 private:
  std::optional<Tensor> memory_;  // of a negated tensor
  bool negated_ = false;          // its numbers are, at the moment
};

// `written` is the number of the argument that `function` writes, `read_too` whether it also reads it.
template <auto function, Name name, size_t written, bool read_too = false>
void boxed_for_lazy_bits(StableIValue* stack, uint64_t, uint64_t) {
  const auto settled = [](auto... arguments) {
    WrittenMemory memory(std::get<written>(std::tie(arguments...)), read_too);
    (resolve(arguments), ...);
    const auto call = [&] { return function(std::move(arguments)...); };
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      memory.finish();
    } else {
      auto results = call();
      memory.finish();
      return results;
    }
  };
  run_boxed<name>(stack, settled, ArgumentsOf<decltype(function)>::take(stack));
}

}  // namespace torch_conv
