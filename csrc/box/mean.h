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

// The same of sums of bytes that fit into 16 bits, with `reciprocal` 2^16 / area cut to a whole number: their product's
// upper half is the mean cut to a whole number, or one less.
TC_HD uint16_t short_mean(uint16_t sum, uint16_t reciprocal, uint16_t area) {
  uint16_t quotient = uint16_t(uint32_t(sum) * reciprocal >> 16), rest = uint16_t(sum - quotient * area);
  const bool more = rest >= area;
  quotient = uint16_t(quotient + more), rest = uint16_t(more ? rest - area : rest);
  return uint16_t(quotient + (uint16_t(2 * rest + (quotient & 1)) > area));
}

// total / area, rounded once: to a whole number or to Real. In float64 nothing else is lost below 2^53.
template <typename Real>
TC_HD Real mean_of(double total, double area, bool whole) {
  const double mean = total / area;
  return Real(whole ? std::rint(mean) : mean);
}

}  // namespace torch_conv::box
