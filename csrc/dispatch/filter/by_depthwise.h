// Filters of interleaved channels with a window for each channel, as depthwise convolutions.
#pragma once

#include "dispatch/dispatch.h"

namespace torch_conv {

// Whether a depthwise convolution computes the filter.
bool is_depthwise(const Direct& p);
// The problem of that convolution. Host taps have no address yet: the launch uploads them.
Depthwise as_depthwise(const Direct& p, Sums sums);

// The faster order of sums of the depthwise kernel family.
Sums depthwise_sums(const Direct& p);
// Null, or why the filters' kernels are as fast.
const char* depthwise_is_slower(const Direct& p);

// TORCH_CONV_VARIANT names the variant for interleaved channels. No kernel family of filters has a variant of this
// name, so the pin selects the algorithm (tests/test_filter2d_channels.py).
bool depthwise_pinned();

}  // namespace torch_conv
