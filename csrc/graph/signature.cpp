#include "graph/signature.h"

#include "core/parallel.h"
#include "graph/environment.h"

namespace torch_conv {

namespace {

constexpr uintptr_t kAlignment = 128;  // bytes; no kernel family needs more

}  // namespace

Signature::Signature(const char* op, Form form, const Call& call) {
  text_.reserve(512), tensors_.reserve(4);
  add(int64_t(reinterpret_cast<uintptr_t>(op))), add(int64_t(form)), add(int64_t(thread_count()));
  add(call.steered);
  if (call.steered)
    for (const char* name : kSteering) add(std::string(environment(name)));
  add(call.out);  // the first tensor; X_out serves no part of an image
}

void Signature::add(const Tensor& t) {
  const char* data = address_of(t);
  int64_t alias = 0;  // the first tensor with the same address
  while (alias < int64_t(tensors_.size()) && address_of(tensors_[alias]) != data) ++alias;
  const auto sizes = t.sizes(), strides = t.strides();
  add(int64_t(t.scalar_type())), add(t.is_cpu()), add(int64_t(t.get_device_index())), add(alias);
  add(int64_t(reinterpret_cast<uintptr_t>(data) % kAlignment)), add(int64_t(sizes.size()));
  put(sizes.data(), sizes.size() * sizeof(int64_t)), put(strides.data(), strides.size() * sizeof(int64_t));
  tensors_.push_back(t);
}

}  // namespace torch_conv
