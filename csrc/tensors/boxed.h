// The calling convention of torch's dispatcher in the stable ABI: a stack of 64-bit values has the arguments and takes
// the results. TORCH_BOX of torch 2.11 does the same, but loses 48 bytes for every string.
#pragma once

#include <algorithm>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tensors/torch_api.h"

namespace torch_conv {

// An operator's name as a template argument.
template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&s)[N]) { std::copy(s, s + N, text); }
};

// A value of the stack as a C++ value. The conversion frees the memory of the stack's value, also where it throws.
template <typename T>
struct StackValue {
  static T from(StableIValue value) { return torch::stable::detail::to<T>(value); }
};

struct StackDeleter {
  void operator()(StringOpaque* string) const { torch_delete_string(string); }
  void operator()(StableListOpaque* list) const { torch_delete_list(list); }
};

// A dtype that torch's headers do not know must not throw, because later arguments are still on the stack.
template <>
struct StackValue<ScalarType> {
  static ScalarType from(StableIValue value) {
    try {
      return torch::stable::detail::to<ScalarType>(value);
    } catch (const std::runtime_error&) {
      return ScalarType::Undefined;  // the operators' checks refuse it
    }
  }
};

template <>
struct StackValue<std::string> {
  static std::string from(StableIValue value) {
    const std::unique_ptr<StringOpaque, StackDeleter> string(torch::stable::detail::to<StringHandle>(value));
    size_t length = 0;
    const char* text = nullptr;
    TORCH_ERROR_CODE_CHECK(torch_string_length(string.get(), &length));
    TORCH_ERROR_CODE_CHECK(torch_string_c_str(string.get(), &text));
    return {text, length};
  }
};

template <typename T>
struct StackValue<std::optional<T>> {
  static std::optional<T> from(StableIValue value) {
    const std::unique_ptr<StableIValue> held(torch::stable::detail::to<StableIValue*>(value));
    return held ? std::optional<T>(StackValue<T>::from(*held)) : std::nullopt;
  }
};

template <typename T>
struct StackValue<std::vector<T>> {
  static std::vector<T> from(StableIValue value) {
    const std::unique_ptr<StableListOpaque, StackDeleter> list(torch::stable::detail::to<StableListHandle>(value));
    size_t size = 0;
    TORCH_ERROR_CODE_CHECK(torch_list_size(list.get(), &size));
    std::vector<T> values;
    values.reserve(size);
    for (size_t i = 0; i < size; ++i) {
      StableIValue element;
      TORCH_ERROR_CODE_CHECK(torch_list_get_item(list.get(), i, &element));
      values.push_back(StackValue<T>::from(element));
    }
    return values;
  }
};

// The arguments of a function, without references.
template <typename Function>
struct ArgumentsOf;
template <typename Result, typename... Args>
struct ArgumentsOf<Result (*)(Args...)> {
  using Tuple = std::tuple<std::remove_cvref_t<Args>...>;

  static Tuple from_stack(StableIValue* stack) { return from_stack(stack, std::index_sequence_for<Args...>()); }

 private:
  template <size_t... I>
  static Tuple from_stack(StableIValue* stack, std::index_sequence<I...>) {
    return Tuple{StackValue<std::remove_cvref_t<Args>>::from(stack[I])...};  // braces: from left to right
  }
};

template <typename Result>
void put(StableIValue* stack, const Result& result) {
  stack[0] = torch::stable::detail::from(result);
}
template <typename... Results>
void put(StableIValue* stack, const std::tuple<Results...>& results) {
  std::apply([&](const Results&... each) { ((*stack++ = torch::stable::detail::from(each)), ...); }, results);
}

// Refuses None for a tensor, and tensors whose storage was freed.
void check_given(const char* name, const Tensor& t);
inline void check_given(const char* name, const std::vector<Tensor>& tensors) {
  for (const Tensor& t : tensors) check_given(name, t);
}
template <typename Other>
void check_given(const char*, const Other&) {}
template <typename T>
void check_given(const char* name, const std::optional<T>& value) {
  if (value) check_given(name, *value);
}

// Whether torch returns the text of an error (2.13 and later).
bool torch_says_why();

// Throws the text of torch's own error, or OutOfMemory, where `error` is that of a failed call of torch.
void throw_for_torch(const std::runtime_error& error);

// Calls `function`. Refusals begin with `name`, the operator's.
template <Name name, typename Function, typename Arguments>
void run_boxed(StableIValue* stack, const Function& function, Arguments arguments) {
  std::apply([](const auto&... each) { (check_given(name.text, each), ...); }, arguments);
  const auto call = [&] { return std::apply(function, std::move(arguments)); };
  try {
    if constexpr (std::is_void_v<decltype(call())>) call();
    else put(stack, call());
  } catch (const std::runtime_error& error) {
    throw_for_torch(error);
    throw;
  }
}

template <auto function, Name name>
void boxed(StableIValue* stack, uint64_t count, uint64_t) {
  using Arguments = ArgumentsOf<decltype(function)>;
  if (count != std::tuple_size_v<typename Arguments::Tuple>)
    throw std::logic_error("torch_conv: a schema and its function differ");
  run_boxed<name>(stack, function, Arguments::from_stack(stack));
}

}  // namespace torch_conv
