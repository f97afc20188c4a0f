// Filters of images on the CPU with float64 sums for any dtype of the image, for compat.cv2. The bits are those of the
// filter over a float64 copy of the image.
#pragma once

#include "api/filters.h"
#include "core/cpu/float64.h"
#include "kernels/families.h"
#include "tensors/boxed.h"
#include "tensors/lazy_bits.h"

namespace torch_conv {

// `p` is the problem over the float64 copy; `in.data` has elements of dtype `element`.
inline void run_in_float64(Direct p, Dtype element) {
  const Plan plan = direct::plan_cpu(p, "");
  p.in.dtype = element;
  direct::run_in_float64(p, plan);
}
inline void run_in_float64(Separable p, Dtype element) {
  const Plan plan = separable2d::plan_cpu(p, "");
  p.in.dtype = element;
  separable2d::run_in_float64(p, plan);
}
inline void run_in_float64(Box p, Dtype element) {
  const Plan plan = box::plan_cpu(p, "");
  p.in.dtype = element;
  box::run_in_float64(p, plan);
}

// The options of such a filter.
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
