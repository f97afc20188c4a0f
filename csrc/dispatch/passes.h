// One pass an axis, whatever the device: images by their kernel family, volumes in one launch or taken apart into
// planes and depth.
#pragma once

#include "dispatch/dispatch.h"

namespace torch_conv {

// `in` is the tensor behind p.in.
void run_passes(Call& call, const Target& target, const ImageView& in, int axes, const Separable& p);

}  // namespace torch_conv
