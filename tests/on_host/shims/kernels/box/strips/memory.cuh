// The same without instructions of a GPU.
#pragma once

#include "core/cuda/async_copy.cuh"
#include "core/cuda/device.cuh"

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
template <bool kPolicies>
uint64_t keep_policy() {
  return 0;
}
template <bool kPolicies>
uint64_t pass_policy() {
  return 0;
}

inline void lanes_meet() { __syncwarp(); }
inline void hold(Quad&) {}
template <typename T>
void hold(const T*&) {}

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
  async_copy<sizeof(*to)>(to, from, present ? sizeof(*to) : 0);
}

template <bool kPolicies>
void copy_word16(void* to, const void* from, bool present, uint64_t) {
  async_copy<16>(to, from, present ? 16 : 0);
}

template <bool kPolicies>
void copy_float(float* to, const float* from, bool present, uint64_t) {
  async_copy<4>(to, from, present ? 4 : 0);
}

template <bool kPolicies>
void load_float(float& v, const float* from, bool present, float absent, uint64_t) {
  v = present ? *from : absent;
}

template <bool kPolicies>
void load_three_words(unsigned* to, const void* from, bool first, bool second, bool third, uint64_t) {
  if (reinterpret_cast<uintptr_t>(from) % 4) std::abort();
  const unsigned* const words = static_cast<const unsigned*>(from);
  to[0] = first ? words[0] : 0, to[1] = second ? words[1] : 0, to[2] = third ? words[2] : 0;
}

inline unsigned or_of_lanes(unsigned bits) {
  for (int far = 1; far < 32; far *= 2) bits |= __shfl_xor_sync(~0u, bits, far);
  return bits;
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
