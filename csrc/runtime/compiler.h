// NVRTC, the compiler in torch's CUDA packages. NVRTC compiles kernels that were not built ahead. This module finds it
// at run time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan.h"

namespace torch_conv::cuda {

// A kernel for one architecture.
struct Binary {
  std::string symbol;  // its name in the code
  std::string code;    // a cubin, or PTX
};

// A call whose kernel is neither built ahead nor compiled yet: the call runs on other kernels with the same bits while
// threads compile its own, it waits for the compiler, or the kernel counts as missing.
enum class CompileMode { background, wait, never };
// The value of TORCH_CONV_COMPILE. TORCH_CONV_NO_NVRTC=1 is the old name of `never`. Throws for any other value. This
// function and the next ones read the environment, so that only calling threads may use them.
CompileMode compile_mode();

// The options of every kernel, and the options in TORCH_CONV_NVRTC_FLAGS ("-lineinfo", "-DNAME", ...) for profilers and
// sanitizers.
std::string compile_flags();

// The version of NVRTC ("13.0"), or "" where there is no compiler, with the reason in `why`.
const std::string& compiler_version(std::string* why = nullptr);

constexpr int kLeastCapability = 80;  // the kernels use asynchronous copies

// "9.0" for 90.
std::string capability_text(int capability);

// The compute capabilities of at least kLeastCapability that NVRTC compiles for, ascending. Empty without NVRTC.
const std::vector<int>& compiled_capabilities();

// The code that NVRTC makes for a GPU.
struct Target {
  int capability;
  bool ptx;  // else machine code
};

// Machine code for the GPU's capability, or for a lower one of the same major, whose code the GPU runs. For a major
// that NVRTC does not know: PTX of the newest capability below, which the driver compiles. None below kLeastCapability.
std::optional<Target> target_for(int capability);

// The target of a kernel for a GPU of that compute capability. Throws one sentence where the kernel cannot be compiled.
Target target_of(const Kernel& kernel, int capability);

// Compiles with `flags` of compile_flags(), on any thread. An error is one sentence that ends with the compiler's first
// error. `report`, if not null, receives ptxas's lines on registers and spills.
Binary compile(const Kernel& kernel, const Target& target, const std::string& flags, std::string* report = nullptr);

}  // namespace torch_conv::cuda
