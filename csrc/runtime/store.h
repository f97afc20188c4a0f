// The kernel store maps a kernel's name to the loaded kernel. The store looks in memory, then among the kernels that
// were built ahead, then in the cache on disk. Else NVRTC compiles the kernel from the sources in this module: for a
// caller that waits, or on a thread in the background.
#pragma once

#include <string>
#include <vector>

#include "core/plan.h"
#include "runtime/loaded_kernel.h"

namespace torch_conv::cuda {

// Loads a kernel, which may be compiled first. An error is one sentence with the kernel's name; the next call tries
// again.
const LoadedKernel& load(const Kernel& kernel, const Arch& arch);

// Whether load() can find or compile the kernel. True wherever there is a compiler.
bool offers(const Kernel& kernel, const Arch& arch);

// Whether load() finds the kernel without a compilation.
bool is_ready(const Kernel& kernel, const Arch& arch);

// Starts the compilation of a kernel that is not ready. False: it will not become ready. An error is said once on
// standard error, and such a kernel is compiled again only by load().
bool compile_in_background(const Kernel& kernel, const Arch& arch);

// Compiles the kernels that `folder`/sm_XY does not hold yet. Returns the files of all kernels.
std::vector<std::string> build_ahead(const std::string& folder, int capability, const std::vector<Kernel>& kernels);

// Lines for `torch-conv info`: compiler, cache, kernels built ahead, the origin of the kernels of GPUs with these
// compute capabilities, each kernel that this process has loaded, and the number that threads compile.
std::vector<std::string> store_report(const std::vector<int64_t>& capabilities);

}  // namespace torch_conv::cuda
