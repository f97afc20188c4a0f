// Sums of integers: the offsets of planes, and the last step of an output.
#pragma once

#include "kernels/box/mean.h"
#include "kernels/box/shared/common.cuh"
#include "kernels/box/shared/integer_params.h"

namespace torch_conv::box {

// Outputs are computed in float32, or float64 for 64-bit sums.
template <typename Sum>
using real_t = std::conditional_t<sizeof(Sum) == 8, double, float>;

// Integers are summed modulo 2^32 or 2^64; int16 is sign-extended by the conversion.
template <typename Sum, typename T>
__device__ __forceinline__ Sum to_sum(T v) {
  return Sum(v);
}

// The sum as a signed or unsigned number. It stays an integer: float32 may not hold it.
template <typename T, typename Sum>
__device__ __forceinline__ auto to_real(Sum sum) {
  if constexpr (std::is_same_v<T, int16_t>) return std::make_signed_t<Sum>(sum);
  else return sum;
}

__device__ __forceinline__ int floor_mod(int a, int n) {
  const int m = a % n;
  return m < 0 ? m + n : m;
}

template <typename T>
__device__ __forceinline__ const T* in_plane(const IntegerArgs& a, int64_t plane) {
  return static_cast<const T*>(a.in) + plane / a.channels * a.in_stride_n + plane % a.channels * a.in_stride_c;
}

// Element index of a plane's first output.
__device__ __forceinline__ int64_t out_plane(const IntegerArgs& a, int64_t plane) {
  return plane / a.channels * a.out_stride_n + plane % a.channels * a.out_stride_c;
}

// Integer sums are divided by the pixels, not multiplied by their reciprocal: means are rounded once.
template <typename Out, typename Sum>
__device__ __forceinline__ real_t<Sum> finished(const IntegerArgs& a, Sum sum, int y, int x) {
  using Real = real_t<Sum>;
  const int64_t pixels = int64_t(a.kh) * a.kw, area = a.scale == 1 ? 1 : pixels;
  const bool whole = std::is_integral_v<Out> || (std::is_same_v<Out, General> && is_integer(a.out_dtype));
  auto scaled = [&]() -> Real {
    if (area == 1) return Real(sum);
    return whole ? rounded_mean(sum, Real(a.scale), Sum(area)) : mean_of<Real>(double(sum), double(area), false);
  };
  if (!std::is_same_v<Out, General> || a.finish == Finish::scale) return scaled();
  const int64_t inside = int64_t(overlap(y - a.pad_y, a.kh, a.in_h)) * overlap(x - a.pad_x, a.kw, a.in_w);
  const int64_t outside = pixels - inside;
  if (a.finish == Finish::mean_inside) {
    if (inside == 0) return Real(0);
    return mean_of<Real>(double(sum), double(inside), whole);
  }
  if (outside == 0) return scaled();
  if (a.finish != Finish::value) return Real(0);
  return mean_of<Real>(double(sum) + a.value * double(outside), double(area), whole);
}

template <typename Out, typename Real>
__device__ __forceinline__ void store(const IntegerArgs& a, int64_t index, Real v) {
  if constexpr (!std::is_same_v<Out, General>) {
    static_cast<Out*>(a.out)[index] = from_acc<Out>(v);
  } else {
    with_type(a.out_dtype, [&](auto zero) { store<decltype(zero)>(a, index, v); });
  }
}

}  // namespace torch_conv::box
