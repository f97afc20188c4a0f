#include "tensors/lazy_bits.h"

#include <set>
#include <string>

#include "tensors/checks.h"
#include "tensors/images.h"

namespace torch_conv {

namespace {

void negate(const Tensor& t) { call_aten("aten::neg_", "", t); }

}  // namespace

void register_for_lazy_bits(const std::string& name, void (*kernel)(StableIValue*, uint64_t, uint64_t)) {
  using torch::stable::detail::StableLibrary;
  static StableLibrary negative(StableLibrary::Kind::IMPL, "torch_conv", "Negative", __FILE__, __LINE__);
  static StableLibrary conjugate(StableLibrary::Kind::IMPL, "torch_conv", "Conjugate", __FILE__, __LINE__);
  static std::set<std::string> known;
  if (!known.insert(name).second) return;
  negative.impl(name.c_str(), kernel);
  conjugate.impl(name.c_str(), kernel);
}

void resolve(Tensor& t) { t = call_aten("aten::resolve_neg", "", t); }

void resolve(std::vector<Tensor>& tensors) {
  for (Tensor& t : tensors) resolve(t);
}

WrittenMemory::WrittenMemory(Tensor& written, bool read_too) {
  check(written.is_cpu() || written.is_cuda(), "torch_conv", "a written argument must be on the CPU or on CUDA");
  // Below autograd aten::is_neg resolves its argument first. A copy by aten::resolve_neg shows the lazy bit too.
  if (written.numel() == 0 || call_aten("aten::resolve_neg", "", written).data_ptr() == written.data_ptr()) return;
  written = torch::stable::from_blob(written.data_ptr(), sizes_of(written), strides_of(written), written.device(),
                                     written.scalar_type());
  memory_ = written;
  // The function refuses tensors that overlap themselves.
  if (read_too && !overlaps_itself(written)) negate(written), negated_ = true;
}

WrittenMemory::~WrittenMemory() {
  if (negated_) negate(*memory_);
}

void WrittenMemory::finish() {
  if (memory_) negate(*memory_);
  negated_ = false;
}

}  // namespace torch_conv
