// Where torch's conv1d, conv2d and conv3d are ahead of our kernels: what algorithm 'auto' hands over.
#pragma once

#include "dispatch/conv/router.h"

namespace torch_conv {

// The row of the table that hands a convolution, which our kernels serve, to torch; -1 if none does, kUnknown if that
// depends on numbers that are unknown.
int64_t handed_over(const Convolution& conv);

// A sentence with the times measured.
const std::string& handover_reason(int64_t row);

}  // namespace torch_conv
