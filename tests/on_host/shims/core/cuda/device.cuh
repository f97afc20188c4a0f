// The header of csrc, with stores that a host has.
#pragma once

#define store_pack_if store_pack_by_ptx
#define store_if store_by_ptx
#define load_pack load_pack_anywhere
#include_next "core/cuda/device.cuh"
#undef store_pack_if
#undef store_if
#undef load_pack

namespace torch_conv {

template <int N, typename T>
Pack<N, T> load_pack(const T* from) {
  if (reinterpret_cast<uintptr_t>(from) % sizeof(Pack<N, T>) != 0) std::abort();
  return load_pack_anywhere<N>(from);
}

template <int N, typename T, bool kPassing = false>
void store_pack_if(bool condition, T* to, const Pack<N, T>& pack) {
  if (reinterpret_cast<uintptr_t>(to) % sizeof(pack) != 0 && condition) std::abort();
  if (condition) memcpy(to, &pack, sizeof(pack));
}

template <typename T>
void store_if(bool condition, T* to, T value) {
  if (condition) *to = value;
}

}  // namespace torch_conv
