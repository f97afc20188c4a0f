// Means of integer pixels, exactly rounded, on CPU and CUDA alike.
#pragma once

#include <cmath>
#include <type_traits>

#include "core/dtype.h"

namespace torch_conv::box {

// Rounds sum / area half to even. The truncated sum * scale is less than 1.5 from the mean of 16-bit pixels, so the
// remainder tells whether it is one off. The remainder is right even where quotient * area wraps.
template <typename Real, typename I>
TC_HD Real rounded_mean(I sum, Real scale, I area) {
  using Bits = std::make_unsigned_t<I>;
  using Signed = std::make_signed_t<I>;
  const Signed quotient = Signed(Real(sum) * scale);
  const Signed twice = Signed(2 * (Bits(sum) - Bits(quotient) * Bits(area)));
  const Signed odd = quotient & 1, limit = Signed(area);
  return Real(quotient + Signed(twice + odd > limit) - Signed(odd - twice > limit));
}

// A rounded mean in 16 bits, of sums of bytes over areas from 2 to 255: the upper half of (sum + area / 2) * 2^(16 +
// shift) / area, shifted. The product rounds half up; a tie of an even area is then rounded to the even number.
struct ShortMean {
  uint16_t area, half, more, reciprocal;  // more: the summand of a sum
  int shift;

  // Let error be reciprocal * area - 2^(16 + shift). Then n * reciprocal / 2^(16 + shift) exceeds n / area by n * error
  // / 2^(16 + shift) of 1 / area. The truncated product is exact while that part is below 1. For the other areas, from
  // 186 on, the reciprocal is rounded down, and n + 1 replaces n. tests/test_box.py tests every sum over every area.
  constexpr explicit ShortMean(int a) : area(uint16_t(a)), half(uint16_t(a / 2)), more(half), reciprocal(0), shift(0) {
    while (2 << shift < a) ++shift;
    const int64_t one = int64_t(65536) << shift, most = 255 * a + half;
    const int64_t up = (one + a - 1) / a, down = one / a;
    const bool exact = (up * a - one) * most < one;
    reciprocal = uint16_t(exact ? up : down);
    if (!exact) ++more;
  }

  constexpr bool ties() const { return area % 2 == 0; }
};

// total / area, rounded once: to a whole number or to Real. In float64 nothing else is lost below 2^53.
template <typename Real>
TC_HD Real mean_of(double total, double area, bool whole) {
  const double mean = total / area;
  return Real(whole ? std::rint(mean) : mean);
}

}  // namespace torch_conv::box
