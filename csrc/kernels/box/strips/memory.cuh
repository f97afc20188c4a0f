// The PTX instructions of box_strips: loads, copies and stores with a hint that tells L2 how long to keep a
// line.
#pragma once

#include "core/cuda/async_copy.cuh"
#include "core/cuda/device.cuh"

namespace torch_conv::box {

struct alignas(16) Quad {
  float x, y, z, w;
  __device__ __forceinline__ Quad operator+(const Quad& b) const { return {x + b.x, y + b.y, z + b.z, w + b.w}; }
};

// Synchronises a warp whose lanes have copied for one another. racecheck follows barriers, but no __syncwarp() after
// such copies.
__device__ __forceinline__ void lanes_meet() {
#ifdef TORCH_CONV_EVERY_LANE_ARRIVES
  asm volatile("bar.sync %0, 32;" ::"r"(1 + threadIdx.x / 32) : "memory");
#else
  __syncwarp();
#endif
}

// L2 keeps entering rows until they leave, and no other data.
struct Policies {
  uint64_t keep, pass;
};
template <bool kPolicies>
__device__ __forceinline__ uint64_t keep_policy() {
  uint64_t keep = 0;
  if constexpr (kPolicies) asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(keep));
  return keep;
}
template <bool kPolicies>
__device__ __forceinline__ uint64_t pass_policy() {
  uint64_t pass = 0;
  if constexpr (kPolicies) asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(pass));
  return pass;
}
template <bool kPolicies>
__device__ __forceinline__ Policies policies() {
  return {keep_policy<kPolicies>(), pass_policy<kPolicies>()};
}

// Fixes the value here: the compiler moves no later memory access before this.
__device__ __forceinline__ void hold(Quad& v) {
  asm volatile("" : "+f"(v.x), "+f"(v.y), "+f"(v.z), "+f"(v.w)::"memory");
}

// Fixes the pointer here, so that the compiler does not compute all rows' addresses in advance.
template <typename T>
__device__ __forceinline__ void hold(const T*& p) {
  asm volatile("" : "+l"(p));
}

// 4 elements in their dtype in memory.
template <typename T>
using Cells4 = std::conditional_t<sizeof(T) == 4, Quad, Pack<4, T>>;

// 4 aligned elements that no kernel writes to while this one runs, or zeros. Predicated: a branch would have its other
// side wait for the loads.
template <typename T, bool kPolicies>
__device__ __forceinline__ void load_cells4(Cells4<T>& cells, const T* from, bool present, uint64_t policy) {
  if constexpr (sizeof(T) == 4) {
    if constexpr (kPolicies)
      asm volatile(
          "{ .reg .pred p; setp.ne.b32 p, %5, 0; "
          "mov.f32 %0, 0f00000000; mov.f32 %1, 0f00000000; mov.f32 %2, 0f00000000; mov.f32 %3, 0f00000000; "
          "@p ld.global.nc.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %6; }"
          : "=&f"(cells.x), "=&f"(cells.y), "=&f"(cells.z), "=&f"(cells.w)
          : "l"(from), "r"(int(present)), "l"(policy));
    else
      asm volatile(
          "{ .reg .pred p; setp.ne.b32 p, %5, 0; "
          "mov.f32 %0, 0f00000000; mov.f32 %1, 0f00000000; mov.f32 %2, 0f00000000; mov.f32 %3, 0f00000000; "
          "@p ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4]; }"
          : "=&f"(cells.x), "=&f"(cells.y), "=&f"(cells.z), "=&f"(cells.w)
          : "l"(from), "r"(int(present)));
  } else {
    uint2 word;
    if constexpr (kPolicies)
      asm volatile(
          "{ .reg .pred p; setp.ne.b32 p, %3, 0; "
          "mov.b32 %0, 0; mov.b32 %1, 0; @p ld.global.nc.L2::cache_hint.v2.b32 {%0, %1}, [%2], %4; }"
          : "=&r"(word.x), "=&r"(word.y)
          : "l"(from), "r"(int(present)), "l"(policy));
    else
      asm volatile(
          "{ .reg .pred p; setp.ne.b32 p, %3, 0; "
          "mov.b32 %0, 0; mov.b32 %1, 0; @p ld.global.nc.v2.b32 {%0, %1}, [%2]; }"
          : "=&r"(word.x), "=&r"(word.y)
          : "l"(from), "r"(int(present)));
    memcpy(&cells, &word, sizeof(cells));
  }
}

// An asynchronous copy of 4 aligned elements, or of zeros.
template <typename T, bool kPolicies>
__device__ __forceinline__ void copy_cells4(Cells4<T>* to, const T* from, bool present, uint64_t policy) {
  constexpr int kBytes = 4 * sizeof(T);
  const int bytes = present ? kBytes : 0;
  if constexpr (!kPolicies) async_copy<kBytes>(to, from, bytes);
  else if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "l"(policy)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global.L2::cache_hint [%0], [%1], 8, %2, %3;" ::"r"(shared_address(to)), "l"(from),
                 "r"(bytes), "l"(policy)
                 : "memory");
}

// An asynchronous copy of 16 aligned bytes, or of zeros.
template <bool kPolicies>
__device__ __forceinline__ void copy_word16(void* to, const void* from, bool present, uint64_t policy) {
  const int bytes = present ? 16 : 0;
  if constexpr (kPolicies)
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "l"(policy)
                 : "memory");
  else async_copy<16>(to, from, bytes);
}

// An asynchronous copy of a float, or of 0. (By its size: a predicate becomes a branch around the copy.)
template <bool kPolicies>
__device__ __forceinline__ void copy_float(float* to, const float* from, bool present, uint64_t policy) {
  const int bytes = present ? 4 : 0;
  if constexpr (kPolicies)
    asm volatile("cp.async.ca.shared.global.L2::cache_hint [%0], [%1], 4, %2, %3;" ::"r"(shared_address(to)), "l"(from),
                 "r"(bytes), "l"(policy)
                 : "memory");
  else async_copy<4>(to, from, bytes);
}

// A float that no kernel writes to while this one runs, or `absent`. Predicated, as above.
template <bool kPolicies>
__device__ __forceinline__ void load_float(float& v, const float* from, bool present, float absent, uint64_t policy) {
  if constexpr (kPolicies)
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %3, 0; mov.f32 %0, %2; @p ld.global.nc.L2::cache_hint.f32 %0, [%1], %4; }"
        : "=&f"(v)
        : "l"(from), "f"(absent), "r"(int(present)), "l"(policy));
  else
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; mov.f32 %0, %2; @p ld.global.nc.f32 %0, [%1]; }"
                 : "=&f"(v)
                 : "l"(from), "f"(absent), "r"(int(present)));
}

// Three words of 4 bytes that follow one another, each present or 0.
template <bool kPolicies>
__device__ __forceinline__ void load_three_words(unsigned* to, const void* from, bool first, bool second, bool third,
                                                 uint64_t policy) {
  if constexpr (kPolicies)
    asm volatile(
        "{ .reg .pred p, q, r; setp.ne.b32 p, %4, 0; setp.ne.b32 q, %5, 0; setp.ne.b32 r, %6, 0; "
        "mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; "
        "@p ld.global.nc.L2::cache_hint.b32 %0, [%3], %7; @q ld.global.nc.L2::cache_hint.b32 %1, [%3 + 4], %7; "
        "@r ld.global.nc.L2::cache_hint.b32 %2, [%3 + 8], %7; }"
        : "=&r"(to[0]), "=&r"(to[1]), "=&r"(to[2])
        : "l"(from), "r"(int(first)), "r"(int(second)), "r"(int(third)), "l"(policy));
  else
    asm volatile(
        "{ .reg .pred p, q, r; setp.ne.b32 p, %4, 0; setp.ne.b32 q, %5, 0; setp.ne.b32 r, %6, 0; "
        "mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; "
        "@p ld.global.nc.b32 %0, [%3]; @q ld.global.nc.b32 %1, [%3 + 4]; @r ld.global.nc.b32 %2, [%3 + 8]; }"
        : "=&r"(to[0]), "=&r"(to[1]), "=&r"(to[2])
        : "l"(from), "r"(int(first)), "r"(int(second)), "r"(int(third)));
}

// The bitwise or over all lanes.
__device__ __forceinline__ unsigned or_of_lanes(unsigned bits) { return __reduce_or_sync(0xffffffff, bits); }

// One element that no kernel writes to while this one runs.
template <typename T>
__device__ __forceinline__ T load_read_only(const T* from) {
  if constexpr (sizeof(T) == 4) {
    return __ldg(from);
  } else {
    const unsigned short bits = __ldg(reinterpret_cast<const unsigned short*>(from));
    T x;
    memcpy(&x, &bits, sizeof(x));
    return x;
  }
}

// Stores that are predicated, because branches would separate them.
template <typename Out, bool kPolicies>
__device__ __forceinline__ void store_quad(Out* to, const Quad& v, bool present, uint64_t policy) {
  if constexpr (sizeof(Out) == 4 && kPolicies) {
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %6, 0; @p st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5; }" ::"l"(
            to),
        "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "l"(policy), "r"(int(present))
        : "memory");
  } else {
    const Pack<4, Out> pack{from_acc<Out>(v.x), from_acc<Out>(v.y), from_acc<Out>(v.z), from_acc<Out>(v.w)};
    store_pack_if(present, to, pack);
  }
}

template <typename Out, bool kPolicies>
__device__ __forceinline__ void store_one(Out* to, float v, bool present, uint64_t policy) {
  if constexpr (sizeof(Out) == 4 && kPolicies)
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p st.global.L2::cache_hint.f32 [%0], %1, %2; }" ::"l"(to),
                 "f"(v), "l"(policy), "r"(int(present))
                 : "memory");
  else if (present) *to = from_acc<Out>(v);
}

}  // namespace torch_conv::box
