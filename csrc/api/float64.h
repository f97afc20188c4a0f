// Operators of compat.cv2 for images on the CPU, with float64 sums for any dtype of the image (dispatch/float64.h).
#pragma once

#include "api/filter_call.h"
#include "dispatch/float64.h"
#include "tensors/boxed.h"
#include "tensors/lazy_bits.h"

namespace torch_conv {

inline FilterOptions in_float64(const std::string& border_type, const char* algorithm, int64_t anchor_y,
                                int64_t anchor_x) {
  return {border_type, false, "same", 0, Sizes{anchor_y, anchor_x}, {1, 1}, {1, 1}, std::nullopt, algorithm, true};
}

// Registers a function for CPU tensors and for lazily negated tensors. `out` is its last argument.
template <auto function, Name name>
void implement_in_float64(torch::stable::detail::StableLibrary& m) {
  m.impl(name.text, boxed<function, name>);
  constexpr size_t count = std::tuple_size_v<typename ArgumentsOf<decltype(function)>::Tuple>;
  register_for_lazy_bits(name.text, boxed_for_lazy_bits<function, name, count - 1>);
}

}  // namespace torch_conv
