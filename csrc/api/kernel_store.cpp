// The kernel store as operators, for csrc/ahead.py and `torch-conv info`.
#include "graph/graph_cache.h"
#include "runtime/background.h"
#include "runtime/compiler.h"
#include "runtime/store.h"
#include "tensors/boxed.h"
#include "tensors/torch_api.h"

namespace torch_conv {

namespace {

// Kernels as lines "file name".
std::vector<Kernel> kernels_of(const std::vector<std::string>& lines, std::vector<std::string>& files) {
  std::vector<Kernel> kernels;
  for (const std::string& line : lines) files.push_back(line.substr(0, line.find(' ')));
  for (size_t i = 0; i < lines.size(); ++i)
    kernels.push_back({files[i].c_str(), lines[i].substr(lines[i].find(' ') + 1)});
  return kernels;
}

std::vector<std::string> build(std::string folder, int64_t capability, std::vector<std::string> lines) {
  std::vector<std::string> files;
  const auto kernels = kernels_of(lines, files);
  return cuda::build_ahead(folder, int(capability), kernels);
}

// The report of ptxas for one kernel: registers, spills, shared memory.
std::string ptxas(int64_t capability, std::string line) {
  std::vector<std::string> files;
  const auto kernels = kernels_of({line}, files);
  std::string report;
  cuda::compile(kernels[0], cuda::target_of(kernels[0], int(capability)), cuda::compile_flags(), &report);
  return report;
}

// Starts the compilation of kernels for a GPU that need not be there. Returns how many of them are ready.
int64_t compile_in_background(int64_t capability, std::vector<std::string> lines) {
  std::vector<std::string> files;
  const Arch arch{.major = int(capability / 10), .minor = int(capability % 10)};
  int64_t ready = 0;
  for (const Kernel& kernel : kernels_of(lines, files)) {
    cuda::compile_in_background(kernel, arch);
    ready += cuda::is_ready(kernel, arch);
  }
  return ready;
}

// Waits until no thread compiles, and returns 0. `drop`: only for compilations that have begun, and no later ones
// begin.
int64_t finish_compiling(bool drop) {
  if (drop) stop_background();
  else finish_background();
  return tasks_in_background();
}

std::vector<std::string> report(std::vector<int64_t> capabilities) { return cuda::store_report(capabilities); }

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(torch_conv, m) {
  m.def("_build_kernels(str folder, int capability, str[] kernels) -> str[]");
  m.def("_ptxas(int capability, str kernel) -> str");
  m.def("_compile_in_background(int capability, str[] kernels) -> int");
  m.def("_finish_compiling(bool drop=False) -> int");
  m.def("_store_report(int[] capabilities=[]) -> str[]");
  m.def("_repeated_calls() -> int");
}

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CompositeExplicitAutograd, m) {
  m.impl("_build_kernels", boxed<&build, "_build_kernels">);
  m.impl("_ptxas", boxed<&ptxas, "_ptxas">);
  m.impl("_compile_in_background", boxed<&compile_in_background, "_compile_in_background">);
  m.impl("_finish_compiling", boxed<&finish_compiling, "_finish_compiling">);
  m.impl("_store_report", boxed<&report, "_store_report">);
  m.impl("_repeated_calls", boxed<&repeated_calls, "_repeated_calls">);
}

}  // namespace torch_conv
