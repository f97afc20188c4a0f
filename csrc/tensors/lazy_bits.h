// Operators that write into an argument which torch negates or conjugates lazily, like that of z.conj().imag. Kernels
// of torch for such tensors abort, because they expect the written argument among the results.
#pragma once

#include "tensors/boxed.h"

namespace torch_conv {

// Registers a kernel for the dispatch keys Negative and Conjugate, once for each name.
void register_for_lazy_bits(const std::string& name, void (*kernel)(StableIValue*, uint64_t, uint64_t));

// Writes the numbers of a tensor that is read into memory.
void resolve(Tensor& t);
void resolve(std::vector<Tensor>& tensors);
inline void resolve(std::optional<Tensor>& t) {
  if (t) resolve(*t);
}
template <typename Other>
void resolve(const Other&) {}

// The memory of a tensor that is written. `finish` negates the written numbers of a lazily negated tensor.
class WrittenMemory {
 public:
  WrittenMemory(Tensor& written, bool read_too);  // `written` becomes a view of its memory without a lazy bit
  WrittenMemory(const WrittenMemory&) = delete;
  ~WrittenMemory();  // a function that has thrown leaves the tensor as it was
  void finish();

 private:
  std::optional<Tensor> memory_;  // of a negated tensor
  bool negated_ = false;          // memory_ holds the negated numbers at the moment
};

// `function` writes argument number `written`. `read_too`: `function` also reads this argument.
template <auto function, Name name, size_t written, bool read_too = false>
void boxed_for_lazy_bits(StableIValue* stack, uint64_t, uint64_t) {
  const auto resolved = [](auto... arguments) {
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
  run_boxed<name>(stack, resolved, ArgumentsOf<decltype(function)>::from_stack(stack));
}

}  // namespace torch_conv
