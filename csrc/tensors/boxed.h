// A function as torch's dispatcher calls it through the stable ABI: arguments come from a stack of 64-bit values, and
// results go back there. TORCH_BOX of torch 2.11 does the same, but loses 48 bytes for every string.
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

// A value of the stack as a C++ value. What the stack's value owned is freed, also where the conversion throws.
template <typename T>
struct Taken {
  static T from(StableIValue value) { return torch::stable::detail::to<T>(value); }
};

struct StackDeleter {
  void operator()(StringOpaque* string) const { torch_delete_string(string); }
  void operator()(StableListOpaque* list) const { torch_delete_list(list); }
};

// No dtype that torch's headers do not know may throw here, where later arguments are still on the stack.
template <>
struct Taken<ScalarType> {
  static ScalarType from(StableIValue value) {
    try {
      return torch::stable::detail::to<ScalarType>(value);
    } catch (const std::runtime_error&) {
      return ScalarType::Undefined;  // the operators' checks refuse it
    }
  }
};

template <>
struct Taken<std::string> {
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
struct Taken<std::optional<T>> {
  static std::optional<T> from(StableIValue value) {
    const std::unique_ptr<StableIValue> held(torch::stable::detail::to<StableIValue*>(value));
    return held ? std::optional<T>(Taken<T>::from(*held)) : std::nullopt;
  }
};

template <typename T>
struct Taken<std::vector<T>> {
  static std::vector<T> from(StableIValue value) {
    const std::unique_ptr<StableListOpaque, StackDeleter> list(torch::stable::detail::to<StableListHandle>(value));
    size_t size = 0;
    TORCH_ERROR_CODE_CHECK(torch_list_size(list.get(), &size));
    std::vector<T> values;
    values.reserve(size);
    for (size_t i = 0; i < size; ++i) {
      StableIValue element;
      TORCH_ERROR_CODE_CHECK(torch_list_get_item(list.get(), i, &element));
      values.push_back(Taken<T>::from(element));
    }
    return values;
  }
};

// What a function takes, without references.
template <typename Function>
struct ArgumentsOf;
template <typename Result, typename... Args>
struct ArgumentsOf<Result (*)(Args...)> {
  using Tuple = std::tuple<std::remove_cvref_t<Args>...>;

  static Tuple take(StableIValue* stack) { return take(stack, std::index_sequence_for<Args...>()); }

 private:
  template <size_t... I>
  static Tuple take(StableIValue* stack, std::index_sequence<I...>) {
    return Tuple{Taken<std::remove_cvref_t<Args>>::from(stack[I])...};  // braces: from left to right
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

// Refuses what has no memory to read: None in the place of a tensor, and tensors whose storage was freed.
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

// Whether this torch tells why a call of it failed (2.13 and later).
bool torch_says_why();

// Where `error` only says that a call of torch's failed: throws what torch said of it, or OutOfMemory.
void throw_for_torch(const std::runtime_error& error);

// `function` on the arguments of a stack. The `name` of its operator is for refusals.
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
void boxed(StableIValue* stack, uint64_t arguments, uint64_t) {
  using Taken = ArgumentsOf<decltype(function)>;
  if (arguments != std::tuple_size_v<typename Taken::Tuple>)
    throw std::logic_error("torch_conv: a schema and its function differ");
  run_boxed<name>(stack, function, Taken::take(stack));
}

}  // namespace torch_conv
