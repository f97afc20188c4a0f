// Shared by all kernels: shared-memory addresses, and elements that are loaded as vectors.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/dtype.h"

namespace torch_conv {

// A pointer into shared memory as the address that instructions take.
__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Lanes that arrive at a barrier for their warp. compute-sanitizer's racecheck follows single threads and takes the
// other lanes' reads and writes for races; built with -DTORCH_CONV_EVERY_LANE_ARRIVES it sees them ordered.
#ifdef TORCH_CONV_EVERY_LANE_ARRIVES
constexpr int kWarpArrivals = 32;
#else
constexpr int kWarpArrivals = 1;
#endif

// N elements that travel as one aligned word: 1 to 16 bytes. Loads and stores are written as words, because the
// compiler takes element-wise copies of 8- and 16-bit types apart. (Other numbers of bytes only stand in registers.)
constexpr int pack_alignment(int bytes, int element) { return (bytes & (bytes - 1)) == 0 ? bytes : element; }
template <int N, typename T>
struct alignas(pack_alignment(N * sizeof(T), sizeof(T))) Pack {
  T v[N];
};

template <int Bytes>
struct VectorOf;
template <>
struct VectorOf<1> {
  using type = unsigned char;
};
template <>
struct VectorOf<2> {
  using type = unsigned short;
};
template <>
struct VectorOf<4> {
  using type = unsigned;
};
template <>
struct VectorOf<8> {
  using type = uint2;
};
template <>
struct VectorOf<16> {
  using type = uint4;
};

template <int N, typename T>
__device__ __forceinline__ Pack<N, T> load_pack(const T* from) {
  using Word = typename VectorOf<N * sizeof(T)>::type;
  const Word word = *reinterpret_cast<const Word*>(from);
  Pack<N, T> pack;
  memcpy(&pack, &word, sizeof(pack));
  return pack;
}

// A predicated store of 4, 8 or 16 bytes: a branch around it costs more than the store, and lets the compiler split it.
template <int N, typename T>
__device__ __forceinline__ void store_pack_if(bool condition, T* to, const Pack<N, T>& pack) {
  unsigned w[sizeof(pack) / 4];
  memcpy(w, &pack, sizeof(pack));
  if constexpr (sizeof(pack) == 16)
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.v4.b32 [%1], {%2, %3, %4, %5}; }" ::"r"(int(condition)),
        "l"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
        : "memory");
  else if constexpr (sizeof(pack) == 8)
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.v2.b32 [%1], {%2, %3}; }" ::"r"(int(condition)),
                 "l"(to), "r"(w[0]), "r"(w[1])
                 : "memory");
  else if constexpr (sizeof(pack) == 4)
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.b32 [%1], %2; }" ::"r"(int(condition)), "l"(to),
                 "r"(w[0])
                 : "memory");
  else static_assert(sizeof(pack) == 8, "4, 8 or 16 bytes");
}

// ... of one element: branches around stores would stand between the arithmetic.
template <typename T>
__device__ __forceinline__ void store_if(bool condition, T* to, T value) {
  if constexpr (sizeof(T) == 4) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.b32 [%1], %2; }" ::"r"(int(condition)), "l"(to),
                 "f"(value)
                 : "memory");
  } else {
    unsigned short word = 0;
    memcpy(&word, &value, sizeof(T));
    if constexpr (sizeof(T) == 2)
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.b16 [%1], %2; }" ::"r"(int(condition)), "l"(to),
                   "h"(word)
                   : "memory");
    else
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.b8 [%1], %2; }" ::"r"(int(condition)), "l"(to),
                   "h"(word)
                   : "memory");
  }
}

}  // namespace torch_conv
