// Filters of images on the CPU with float64 sums for any dtype of the image. The bits are those of the filter over a
// float64 copy of the image.
#pragma once

#include "core/cpu/float64.h"
#include "kernels/plan_cpu.h"

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

}  // namespace torch_conv
