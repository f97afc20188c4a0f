// Copies of single threads, done at once.
#pragma once

#include "core/device.cuh"

namespace torch_conv {

template <int kBytes>
void async_copy(void* to, const void* from) {
  if (reinterpret_cast<uintptr_t>(to) % kBytes || reinterpret_cast<uintptr_t>(from) % kBytes) std::abort();
  memcpy(to, from, kBytes);
}
template <int kBytes>
void async_copy(void* to, const void* from, int bytes) {
  if (bytes != 0 && bytes != kBytes) std::abort();  // memcheck takes them for whole copies
  if (reinterpret_cast<uintptr_t>(to) % kBytes || reinterpret_cast<uintptr_t>(from) % kBytes) std::abort();
  memset(to, 0, kBytes);
  memcpy(to, from, bytes);
}
inline void async_wait_all() {}
inline void async_commit() {}
template <int>
void async_wait() {}

}  // namespace torch_conv
