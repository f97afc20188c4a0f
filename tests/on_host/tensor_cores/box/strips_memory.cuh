// The same without instructions of a GPU.
#pragma once

#include "core/async_copy.cuh"
#include "core/device.cuh"

namespace torch_conv::box {

struct alignas(16) Quad {
  float x, y, z, w;
  Quad operator+(const Quad& b) const { return {x + b.x, y + b.y, z + b.z, w + b.w}; }
};

struct Policies {
  uint64_t keep, pass;
};
template <bool kPolicies>
Policies policies() {
  return {};
}

inline void lanes_meet() { __syncwarp(); }
inline void hold(Quad&) {}

template <typename T>
using Cells4 = std::conditional_t<sizeof(T) == 4, Quad, Pack<4, T>>;

template <typename T, bool kPolicies>
void load_cells4(Cells4<T>& cells, const T* from, bool present, uint64_t) {
  if (present && reinterpret_cast<uintptr_t>(from) % sizeof(cells)) std::abort();
  if (present) memcpy(&cells, from, sizeof(cells));
  else memset(&cells, 0, sizeof(cells));
}

template <typename T, bool kPolicies>
void copy_cells4(Cells4<T>* to, const T* from, bool present, uint64_t) {
  load_cells4<T, kPolicies>(*to, from, present, 0);
}

template <typename T>
T load_read_only(const T* from) {
  return *from;
}
template <typename Out, bool kPolicies>
void store_quad(Out* to, const Quad& v, bool present, uint64_t) {
  store_pack_if(present, to,
                Pack<4, Out>{from_acc<Out>(v.x), from_acc<Out>(v.y), from_acc<Out>(v.z), from_acc<Out>(v.w)});
}

template <typename Out, bool kPolicies>
void store_one(Out* to, float v, bool present, uint64_t) {
  if (present) *to = from_acc<Out>(v);
}

}  // namespace torch_conv::box
