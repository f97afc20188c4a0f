// What the plans of the family's variants share.
#pragma once

#include "core/activation.h"
#include "core/refusals.h"
#include "kernels/launch_config.h"

namespace torch_conv::depthwise {

using Config = LaunchConfig<Depthwise>;

// Channels innermost in memory (channels_last), or rows of pixels that lie side by side.
inline bool channels_inner(const Image& x) { return x.stride_c == 1 && x.c > 1 && x.stride_w != 1; }
inline bool rows_inner(const Image& x) { return x.stride_w == 1 || x.w == 1; }

inline bool half_precision(Dtype d) { return d == Dtype::f16 || d == Dtype::bf16; }

}  // namespace torch_conv::depthwise
