#include "tensors/boxed.h"

#include <cstring>
#include <string_view>

#include "tensors/checks.h"

// A function of torch 2.13 and later; null if the loaded torch is older.
extern "C" __attribute__((weak)) const char* torch_exception_get_what_without_backtrace();

namespace torch_conv {

namespace {

std::string operator_of(const char* name) { return {name, std::strcspn(name, ".")}; }

bool names_memory(std::string_view text) {
  for (const char* words : {"out of memory", "not enough memory", "allocate memory", "bad_alloc"})
    if (text.find(words) != text.npos) return true;
  return false;
}

}  // namespace

void check_given(const char* name, const Tensor& t) {
  if (!t.defined()) [[unlikely]]
    refuse(operator_of(name).c_str(), "a tensor is None");
  // The data of a freed storage begins at null; the tensor's data is at its storage offset.
  void* address = nullptr;
  int64_t offset = 0;
  if (aoti_torch_get_data_ptr(t.get(), &address) != TORCH_SUCCESS ||
      aoti_torch_get_storage_offset(t.get(), &offset) != TORCH_SUCCESS)
    refuse(operator_of(name).c_str(), "a tensor has no storage");
  const auto data = reinterpret_cast<uintptr_t>(address);
  constexpr uintptr_t kMostBytes = 16;  // of an element
  if (data > offset * kMostBytes || t.numel() == 0) [[likely]]
    return;
  check(data != offset * t.element_size(), operator_of(name).c_str(), "a tensor of shape ", shape_text(sizes_of(t)),
        " has no memory: its storage was freed");
}

bool torch_says_why() { return torch_exception_get_what_without_backtrace != nullptr; }

void throw_for_torch(const std::runtime_error& error) {
  if (!std::strstr(error.what(), "API call failed at")) return;
  // Before torch 2.13 a failure has no text. The arguments are checked, so the cause is mostly a lack of memory.
  if (!torch_says_why())
    throw OutOfMemory("torch's part of the call", ", or a device has failed (torch says on stderr which)");
  const std::string text = torch_exception_get_what_without_backtrace();
  const std::string sentence = text.substr(0, text.find('\n'));
  if (names_memory(sentence)) throw OutOfMemory("torch's part of the call", " (" + sentence + ")");
  throw std::runtime_error("torch_conv: " + sentence);
}

}  // namespace torch_conv
