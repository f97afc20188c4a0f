// The kernel store as operators, for csrc/ahead.py and `torch-conv info`.
#include "graph/graph_cache.h"
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
  cuda::compile(kernels[0], int(capability), &report);
  return report;
}

std::vector<std::string> report(std::vector<int64_t> capabilities) { return cuda::store_report(capabilities); }

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(torch_conv, m) {
  m.def("_build_kernels(str folder, int capability, str[] kernels) -> str[]");
  m.def("_ptxas(int capability, str kernel) -> str");
  m.def("_store_report(int[] capabilities=[]) -> str[]");
  m.def("_repeated_calls() -> int");
}

STABLE_TORCH_LIBRARY_IMPL(torch_conv, CompositeExplicitAutograd, m) {
  m.impl("_build_kernels", boxed<&build, "_build_kernels">);
  m.impl("_ptxas", boxed<&ptxas, "_ptxas">);
  m.impl("_store_report", boxed<&report, "_store_report">);
  m.impl("_repeated_calls", boxed<&repeated_calls, "_repeated_calls">);
}

}  // namespace torch_conv
