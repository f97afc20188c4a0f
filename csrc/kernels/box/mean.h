// Means of integer pixels, exactly rounded, on CPU and CUDA alike.
#pragma once

#include <cmath>
#include <type_traits>

#include "core/dtype.h"

namespace torch_conv::box {

// sum / area, rounded half to even. sum * scale, cut to a whole number, lies less than 1.5 from the mean of 16-bit
// pixels: what it leaves of the sum tells whether it is one off. The rest is right even where quotient * area wraps.
template <typename Real, typename I>
TC_HD Real rounded_mean(I sum, Real scale, I area) {
  using Bits = std::make_unsigned_t<I>;
  using Signed = std::make_signed_t<I>;
  const Signed quotient = Signed(Real(sum) * scale);
  const Signed twice = Signed(2 * (Bits(sum) - Bits(quotient) * Bits(area)));
  const Signed odd = quotient & 1, limit = Signed(area);
  return Real(quotient + Signed(twice + odd > limit) - Signed(odd - twice > limit));
}

// The same in 16 bits, of sums of bytes over areas from 2 to 255: sum + area / 2, times 2^(16 + shift) / area, of which
// the upper half is shifted. That rounds half up, so a mean of an even area which left no rest goes to the even number.
struct ShortMean {
  uint16_t area, half, more, reciprocal;  // more: what is added to a sum
  int shift;

  // n * reciprocal / 2^(16 + shift) is n / area and n * error / 2^(16 + shift) of 1 / area too much, with error what
  // reciprocal * area has beyond 2^(16 + shift). Cut to a whole number it is exact while the latter is below 1. For the
  // other areas (from 186 on) the reciprocal is cut instead of rounded up, and n + 1 takes the place of n.
  // tests/test_box.py has every sum over every area.
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
