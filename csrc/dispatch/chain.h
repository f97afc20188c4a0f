// A fused chain taken apart: every window as a filter of its own, and `Combine`, through scratch memory. The same bits,
// where no kernel family makes the chain in one launch.
#pragma once

#include "dispatch/dispatch.h"

namespace torch_conv {

// `in` is the tensor behind p.in.
void run_chain(Call& call, const Target& target, const ImageView& in, int axes, const Fused& p);

}  // namespace torch_conv
