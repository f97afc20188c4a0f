// Layouts and dtypes for the plans of all variants.
#pragma once

#include "core/activation.h"
#include "core/refusals.h"

namespace torch_conv::depthwise {

// Interleaved channels (channels_last), or contiguous rows of pixels.
inline bool channels_inner(const Image& x) { return x.stride_c == 1 && x.c > 1 && x.stride_w != 1; }
inline bool rows_inner(const Image& x) { return x.stride_w == 1 || x.w == 1; }

}  // namespace torch_conv::depthwise
