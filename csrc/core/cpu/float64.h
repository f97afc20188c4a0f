// Entry points of the CPU kernels for float64 sums of images of any dtype. Taps are float64, and the plan is that of
// the same problem over a float64 image. Rows are converted as they are read, so the sums have the bits of a float64
// image's sums.
#pragma once

#include "core/plan.h"
#include "core/problem.h"

namespace torch_conv {

namespace direct {
void run_in_float64(const Direct& p, const Plan& plan);
}  // namespace direct

namespace separable2d {
void run_in_float64(const Separable& p, const Plan& plan);
}  // namespace separable2d

namespace box {
void run_in_float64(const Box& p, const Plan& plan);  // of floats
}  // namespace box

}  // namespace torch_conv
