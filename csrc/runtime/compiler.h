// NVRTC, the compiler that comes with torch's CUDA packages: found at run time, used for kernels that were not built
// ahead.
#pragma once

#include <string>

#include "core/plan.h"

namespace torch_conv::cuda {

// A kernel for one architecture.
struct Binary {
  std::string symbol;  // its name in the code
  std::string code;    // a cubin
};

// Options that every kernel is compiled with, and those of TORCH_CONV_NVRTC_FLAGS ("-lineinfo", "-DNAME", ...; for
// profilers and sanitizers).
std::string compile_flags();

// "" where NVRTC was not found, else its version: "13.0".
const std::string& compiler_version();

// For sm_`capability` (90: 9.0). Throws one sentence that ends with the compiler's first error. `report`, if not null,
// receives what ptxas says of registers and spills.
Binary compile(const Kernel& kernel, int capability, std::string* report = nullptr);

}  // namespace torch_conv::cuda
