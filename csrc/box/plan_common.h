// What all plans of boxes on CUDA ask of a problem.
#pragma once

#include <algorithm>
#include <climits>
#include <utility>

#include "box/params.h"
#include "core/rooms.h"

namespace torch_conv::box {

// What the launch needs besides the plan.
struct Config {
  Finish finish;
  bool carry = false;  // shared memory has a buffer to carry column sums over to the columns that repeat them
};

inline Finish finish_of(const Placement& place) {
  switch (place.border) {
    case Border::constant: return place.value == 0 ? Finish::scale : Finish::value;
    case Border::skip: return place.normalized ? Finish::mean : Finish::scale;
    case Border::zero_output: return Finish::interior;
    case Border::replicate:
    case Border::reflect:
    case Border::symmetric:
    case Border::circular: return Finish::scale;
  }
  __builtin_unreachable();
}

// Bytes of one window sum: 4, or 8 where 32-bit integer sums could wrap around and for float64, also as the result's
// dtype: 4-byte sums leave as float32. Differences of sums that wrapped around are still right as long as the window's
// own sum fits.
inline int sum_bytes(const Box& p) {
  const int64_t kh = p.kh, kw = p.kw;
  if (is_integer(p.in.dtype) && p.out.dtype == Dtype::f64) return 8;
  switch (p.in.dtype) {
    case Dtype::f32:
    case Dtype::f16:
    case Dtype::bf16: return 4;
    case Dtype::f64: return 8;
    case Dtype::u8: return kh * kw <= UINT32_MAX / 255 ? 4 : 8;
    case Dtype::u16: return kh * kw <= UINT32_MAX / 65535 ? 4 : 8;
    case Dtype::i16: return kh * kw <= INT32_MAX / 32768 ? 4 : 8;
  }
  __builtin_unreachable();
}

// As kernels' template arguments are spelt.
inline const char* sum_type(const Box& p) {
  const bool wide = sum_bytes(p) == 8;
  if (is_integer(p.in.dtype)) return wide ? "uint64_t" : "uint32_t";
  return wide ? "double" : "float";
}

// What a kernel of its own does faster, another one does for every output: the latter where only it can be had.
inline Kernel first_offered(const Arch& arch, Kernel own, Kernel every) {
  return !arch.offers || arch.offers(own, arch) ? std::move(own) : std::move(every);
}

// Sizes and coordinates are 32-bit inside the kernels.
inline const char* size_refusal(const Box& p) {
  constexpr int64_t limit = INT_MAX / 4;
  const bool fits = std::max({p.in.h, p.in.w, p.out.h, p.out.w, p.kh, p.kw}) < limit &&
                    std::max(std::abs(p.place.pad_y), std::abs(p.place.pad_x)) < limit;
  return fits ? nullptr : "the window or the image is too large";
}

constexpr const char* kOnlyIntegers = "running sums are for integers";

}  // namespace torch_conv::box
