#include "tensors/call.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace torch_conv {

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool environment_steers() {
  for (char** entry = environ; entry && *entry; ++entry)
    if (**entry == 'T' && std::strncmp(*entry, "TORCH_CONV_", 11) == 0) return true;
  return false;
}

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

bool is_question(const Call& call) { return call.purpose == Purpose::explain || call.is_query; }

}  // namespace

bool on_cuda(const Call& call, const Tensor& input) {
  return input.is_cuda() || (is_question(call) && *environment("TORCH_CONV_EXPLAIN_FOR"));
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
  if (const auto described = is_question(call) ? described_gpu(op) : std::nullopt) arch_ = *described;
  respect_environment(arch_);
}

}  // namespace torch_conv
