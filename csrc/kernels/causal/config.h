// Shared by the plans of the family's variants.
#pragma once

#include "core/refusals.h"
#include "kernels/causal/entry_points.h"
#include "kernels/causal/shared/params.h"
#include "kernels/launch_config.h"

namespace torch_conv::causal {

using Config = LaunchConfig<CausalConv>;

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
