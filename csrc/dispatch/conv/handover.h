// The convolutions that algorithm 'auto' hands over to torch, because torch is faster than our kernels.
#pragma once

#include "dispatch/conv/router.h"

namespace torch_conv {

// The row of the table of handovers for a convolution that our kernels serve. The result is -1 if no row matches, and
// kUnknown if unknown numbers decide.
int64_t handover_row(const Convolution& conv);

// The row as a sentence with the measured times.
const std::string& handover_reason(int64_t row);

}  // namespace torch_conv
