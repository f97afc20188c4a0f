// NVRTC, the compiler in torch's CUDA packages. NVRTC compiles kernels that were not built ahead. This module finds it
// at run time.
#pragma once

#include <string>

#include "core/plan.h"

namespace torch_conv::cuda {

// A kernel for one architecture.
struct Binary {
  std::string symbol;  // its name in the code
  std::string code;    // a cubin
};

// The options of every kernel, and the options in TORCH_CONV_NVRTC_FLAGS ("-lineinfo", "-DNAME", ...) for profilers and
// sanitizers.
std::string compile_flags();

// The version of NVRTC ("13.0"), or "" where NVRTC was not found.
const std::string& compiler_version();

// Compiles for sm_`capability` (90: 9.0). An error is one sentence that ends with the compiler's first error. `report`,
// if not null, receives ptxas's lines on registers and spills.
Binary compile(const Kernel& kernel, int capability, std::string* report = nullptr);

}  // namespace torch_conv::cuda
