// Shared by the plans of the family's variants.
#pragma once

#include <algorithm>
#include <climits>
#include <utility>

#include "core/plan.h"
#include "kernels/box/shared/finish.h"

namespace torch_conv::box {

inline Finish finish_of(const Placement& place) {
  switch (place.border) {
    case Border::constant: return place.value == 0 ? Finish::scale : Finish::value;
    case Border::skip: return place.normalized ? Finish::mean_inside : Finish::scale;
    case Border::zero_output: return Finish::interior;
    case Border::replicate:
    case Border::reflect:
    case Border::symmetric:
    case Border::circular: return Finish::scale;
  }
  __builtin_unreachable();
}

// The number of integer pixels whose sum has 32 bits. Differences of sums that wrapped around are still right as long
// as the window's own sum fits.
inline int64_t most_pixels_in_32_bits(Dtype in) {
  return in == Dtype::u8 ? UINT32_MAX / 255 : in == Dtype::u16 ? UINT32_MAX / 65535 : INT32_MAX / 32768;
}

// Bytes of one window sum of integers: 4, or 8 where 32-bit sums could wrap around and for results of float64, since
// 4-byte sums leave as float32.
inline int sum_bytes(const Box& p) {
  return p.out.dtype != Dtype::f64 && p.kh * p.kw <= most_pixels_in_32_bits(p.in.dtype) ? 4 : 8;
}

// The spelling of a kernel's template arguments.
inline const char* sum_type(const Box& p) {
  if (is_integer(p.in.dtype)) return sum_bytes(p) == 8 ? "uint64_t" : "uint32_t";
  return p.in.dtype == Dtype::f64 ? "double" : "float";
}

// The specialized kernel `own` is faster; the kernel `every` serves every output. Returns `every` if `own` is not
// available.
inline Kernel first_offered(const Arch& arch, Kernel own, Kernel every) {
  return !arch.offers || arch.offers(own, arch) ? std::move(own) : std::move(every);
}

// The number of channels interleaved in the rows of image and output; 1: planes with contiguous pixels; 0: neither.
inline int64_t channels_in_rows(const Box& p) {
  if (p.in.stride_w == 1 && p.out.stride_w == 1) return 1;
  const int64_t channels = interleaved_channels(p.in, p.out);
  return channels > 1 ? channels : 0;
}

// Whether the rows of other shards hold their pixels as the image's do.
inline bool alike_in_shards(const Box& p, int pixel) {
  const auto alike = [&](const Image& x) { return pixel == 1 || interleaved_channels(x, p.out) == pixel; };
  return p.peers.same_columns(p.in) && p.peers.all(alike);
}

// Sizes and coordinates are 32-bit inside the kernels.
inline const char* size_refusal(const Box& p) {
  constexpr int64_t limit = INT_MAX / 4;
  const int64_t above = p.peers.above.h, below = p.peers.below.h;
  const bool fits = std::max({p.in.h, p.in.w, p.out.h, p.out.w, p.kh, p.kw, above + below}) < limit &&
                    std::max(std::abs(p.place.pad_y), std::abs(p.place.pad_x)) < limit;
  return fits ? nullptr : "the window or the image is too large";
}

// The size_refusal of variants that read no rows of other shards.
inline const char* alone_refusal(const Box& p) { return p.peers.any() ? "reads no other shards" : size_refusal(p); }

constexpr const char* kOnlyIntegers = "running sums are for integers";

}  // namespace torch_conv::box
