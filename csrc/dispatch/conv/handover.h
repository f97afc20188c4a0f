// The convolutions that algorithm 'auto' hands over to torch, because torch is faster than our kernels.
#pragma once

#include "dispatch/conv/router.h"

namespace torch_conv {

// The row of the table of handovers that a convolution matches, which our kernels serve. -1: no row; kUnknown: unknown
// numbers decide.
int64_t handover_row(const Convolution& conv);

// A sentence with the measured times.
const std::string& handover_reason(int64_t row);

}  // namespace torch_conv
