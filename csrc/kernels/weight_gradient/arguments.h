// A plan as its kernels take it.
#pragma once

#include "kernels/weight_gradient/plan.h"

namespace torch_conv::weight_gradient {

inline SumsArgs sums_args(const WeightGradient& p, const Config& c, float* sums) {
  const Image &in = p.in, &grad = p.grad;
  return {.in = in.data,
          .grad = grad.data,
          .sums = sums,
          .in_n = unsigned(in.stride_n),
          .in_c = unsigned(in.stride_c),
          .in_h = unsigned(in.stride_h),
          .in_w = unsigned(in.stride_w),
          .grad_n = unsigned(grad.stride_n),
          .grad_c = unsigned(grad.stride_c),
          .grad_h = unsigned(grad.stride_h),
          .grad_w = unsigned(grad.stride_w),
          .in_rows = int(in.h),
          .in_columns = int(in.w),
          .grad_rows = int(grad.h),
          .grad_columns = int(grad.w),
          .pad_y = int(p.place.pad_y),
          .pad_x = int(p.place.pad_x),
          .channels = int(grad.c),
          .taps_y = int(p.kh),
          .band = int(c.band),
          .items = unsigned(c.strips * c.bands * grad.n),
          .strips = FastDivisor::of(unsigned(c.strips)),
          .bands = FastDivisor::of(unsigned(c.bands)),
          .multiplier = FastDivisor::of(unsigned(p.multiplier()))};
}

inline FinishArgs finish_args(const WeightGradient& p, const Config& c, const float* sums) {
  const int64_t numbers = p.kh * p.kw + 1;
  return {.sums = sums,
          .weight = p.weight,
          .bias = p.bias,
          .blocks = int(c.splits),
          .taps = int(numbers - 1),
          .count = unsigned(numbers_of(p)),
          .each = FastDivisor::of(unsigned(numbers))};
}

}  // namespace torch_conv::weight_gradient
