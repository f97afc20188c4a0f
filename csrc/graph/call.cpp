#include "graph/call.h"

#include <cstring>
#include <sstream>

namespace torch_conv {

namespace {

// "9.0 132 232448 4.8e12": compute capability, multiprocessors, bytes of shared memory and bytes a second.
std::optional<Arch> described_gpu(const char* op) {
  const std::string text = environment("TORCH_CONV_EXPLAIN_FOR");
  if (text.empty()) return std::nullopt;
  std::istringstream fields(text);
  Arch arch{};
  char point = 0;
  fields >> arch.major >> point >> arch.minor >> arch.multiprocessors >> arch.shared_bytes >> arch.bytes_per_second;
  check(bool(fields) && point == '.', op, "TORCH_CONV_EXPLAIN_FOR must be like '9.0 132 232448 4.8e12', got '", text,
        "'");
  arch.bulk_copy = arch.major >= 9;
  return arch;
}

// Tests plan as for GPUs before Hopper on any GPU.
void respect_environment(Arch& arch) {
  if (std::strcmp(environment("TORCH_CONV_NO_TMA"), "1") == 0) arch.bulk_copy = false;
}

bool is_explained(const Call& call) { return call.lines && !call.prepares(); }

}  // namespace

bool on_cuda(const Call& call, const Tensor& input) {
  return input.is_cuda() || (is_explained(call) && *environment("TORCH_CONV_EXPLAIN_FOR"));
}

Target::Target(const Call& call, const Tensor& input) : input_(input), cuda_(on_cuda(call, input)) {
  const char* op = call.op;
  if (!input.is_cuda() && !input.is_cpu()) refuse(op, "input must be on cpu or cuda, got ", device_text(input));
  if (!cuda_) return;
  if (input.is_cuda()) {
    const char* why = cuda::unavailable();
    check(*why == 0, op, "input is on ", device_text(input), ", but ", why);
    const int device = input.get_device_index();
    device_.emplace(device);
    arch_ = cuda::arch_of(device);
    stream_ = cuda::current_stream(device);
  }
  if (const auto described = is_explained(call) ? described_gpu(op) : std::nullopt) arch_ = *described;
  respect_environment(arch_);
}

}  // namespace torch_conv
