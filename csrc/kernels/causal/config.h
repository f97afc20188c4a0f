// Shared by the plans of the family's variants.
#pragma once

#include <algorithm>

#include "core/refusals.h"
#include "kernels/causal/problem.h"
#include "kernels/causal/shared/params.h"

namespace torch_conv::causal {

// The plan without a variant, of both devices: bytes of x, out, `before` and `after`.
inline Plan base_plan(const CausalConv& p) {
  const double channels = double(p.n) * double(p.c);
  const int64_t states = (p.before.data != nullptr) + (p.after.data != nullptr);
  return {.algorithm = "causal",
          .bytes = channels * double(2 * p.l + states * (p.k - 1)) * size_of(p.dtype),
          .flops = 2 * channels * double(p.k) * double(p.l)};
}

// A call reads the elements of a state that windows use or that move, and writes all; in a ring it writes only new
// elements.
inline Plan base_plan(const CausalUpdate& p) {
  const double channels = double(p.n) * double(p.c);
  const int64_t read = p.used ? p.k - 1 : std::max(p.k - 1, p.state_l - p.l);
  const int64_t written = p.used ? std::min(p.l, p.state_l) : p.state_l;
  return {.algorithm = "causal",
          .bytes = channels * double(2 * p.l + (p.l > 0 ? read + written : 0)) * size_of(p.dtype),
          .flops = 2 * channels * double(p.k) * double(p.l)};
}

// Whether channels are innermost in memory.
inline bool channels_inner(const Signal& s, int64_t channels) { return s.stride_c == 1 && channels > 1; }
inline bool on(const void* data, int64_t bytes) { return reinterpret_cast<uintptr_t>(data) % bytes == 0; }

// Null where the kernels for widths 2 to 4, which have the width as a template argument, serve.
inline const char* narrow_refusal(const CausalConv& p) {
  if (p.dtype == Dtype::f64) return "float64";
  if (p.k < 2 || p.k > 4) return "a width other than 2, 3 and 4";
  if (p.l == 0) return "no inputs";
  if (!below(int64_t(1) << 32,
             {p.x.stride_n, p.x.stride_c, p.x.stride_l, p.out.stride_n, p.out.stride_c, p.out.stride_l}))
    return "strides of 2^32 elements";
  return below(kMostSide, {p.l, p.c}) ? nullptr : "2^30 channels or steps";
}

}  // namespace torch_conv::causal
