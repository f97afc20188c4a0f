// The pointwise operations on the sums of windows. enum Point in problem.h defines them.
#pragma once

#include <cmath>

#include "core/problem.h"

namespace torch_conv {

#ifdef __CUDACC__
// The correctly rounded square roots of N sums of squares. The compiler's square root has a branch for each element,
// whose slow side takes 0, a flat region. Gaussian 3 and Sobel at 8192^2 on one NVIDIA H200 take 171 us with it, 138
// with this function, 136 with an approximate root. Newton's step is correct from 2^-100 on, and for 0 with a finite
// reciprocal.
template <int N>
__device__ __forceinline__ void square_roots(float (&v)[N]) {
  unsigned least = ~0u, most = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    least = min(least, __float_as_uint(v[i]) - 1);  // 0 becomes the largest
    most = max(most, __float_as_uint(v[i]));
  }
  if (least >= __float_as_uint(0x1p-100f) - 1 && most < 0x7f800000) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float reciprocal;
      asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(v[i]));
      reciprocal = fminf(reciprocal, 0x1p60f);
      const float root = __fmul_rn(v[i], reciprocal);
      v[i] = fmaf(fmaf(-root, root, v[i]), 0.5f * reciprocal, root);
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < N; ++i) {
      v[0] = __fsqrt_rn(v[0]);
      const float first = v[0];
#pragma unroll
      for (int j = 0; j + 1 < N; ++j) v[j] = v[j + 1];  // no index of a register
      v[N - 1] = first;
    }
  }
}
#endif

// The outputs of a stage from its windows' sums. `pixel`: the pixel under the windows' middle (`sharpen`). There is
// nothing that a compiler could contract: every product is an operand of fma or the whole expression. Without kRoot,
// `l2` leaves the root to square_roots.
template <Point P, int Windows, bool kRoot = true, typename A, int Outputs>
TC_HD void apply_point(const A (&s)[Windows], A pixel, A number, A (&out)[Outputs]) {
  static_assert(Outputs == count_outputs(P, Windows));
  if constexpr (P == Point::each) {
    for (int i = 0; i < Windows; ++i) out[i] = s[i];
  } else if constexpr (P == Point::sum) {
    out[0] = s[0];
    for (int i = 1; i < Windows; ++i) out[0] += s[i];
  } else if constexpr (P == Point::l1) {
    out[0] = std::fabs(s[0]);
    for (int i = 1; i < Windows; ++i) out[0] += std::fabs(s[i]);
  } else if constexpr (P == Point::l2) {
    A squares = s[0] * s[0];
    for (int i = 1; i < Windows; ++i) squares = std::fma(s[i], s[i], squares);
    out[0] = kRoot ? std::sqrt(squares + number) : squares + number;
  } else if constexpr (P == Point::products) {
    out[0] = s[0] * s[0], out[1] = s[0] * s[1], out[2] = s[1] * s[1];
  } else if constexpr (P == Point::sharpen) {
    out[0] = std::fma(number, pixel - s[0], pixel);
  } else {
    static_assert(P == Point::polar);
    out[0] = std::fma(s[1], s[1], s[0] * s[0]), out[1] = s[0], out[2] = s[1];
  }
}

// `thin`: m(dy, dx) is the squared magnitude of a neighbour. A gradient exactly between two directions counts as
// horizontal, then as vertical. kRoot as in apply_point.
template <bool kRoot = true, typename A, class Magnitude>
TC_HD A thinned(const Magnitude& m, A gx, A gy) {
  const A slope = A(0.41421356237309503);  // tan(22.5 degrees)
  const A ax = std::fabs(gx), ay = std::fabs(gy);
  const bool across = ay <= slope * ax, along = ax <= slope * ay, falling = (gx < 0) != (gy < 0);
  const A before = across ? m(0, -1) : along ? m(-1, 0) : falling ? m(-1, 1) : m(-1, -1);
  const A after = across ? m(0, 1) : along ? m(1, 0) : falling ? m(1, -1) : m(1, 1);
  const A here = m(0, 0);
  return here <= before || here < after ? A(0) : kRoot ? std::sqrt(here) : here;
}

}  // namespace torch_conv
