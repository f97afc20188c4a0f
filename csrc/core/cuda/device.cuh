// Shared-memory addresses, and loads and stores of vectors, for all kernels.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/dtype.h"

namespace torch_conv {

// The shared-memory address of a pointer, for PTX instructions.
__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Lanes that arrive at a barrier for their warp. compute-sanitizer's racecheck follows single threads: without
// -DTORCH_CONV_EVERY_LANE_ARRIVES it reports races of the other lanes' reads and writes.
#ifdef TORCH_CONV_EVERY_LANE_ARRIVES
constexpr int kWarpArrivals = 32;
#else
constexpr int kWarpArrivals = 1;
#endif

// N elements as one aligned vector of 1 to 16 bytes. Loads and stores move the vector, because the compiler splits
// copies of 8- and 16-bit elements. (Packs of other numbers of bytes exist in registers only.)
constexpr int pack_alignment(int bytes, int element) { return (bytes & (bytes - 1)) == 0 ? bytes : element; }
template <int N, typename T>
struct alignas(pack_alignment(N * sizeof(T), sizeof(T))) Pack {
  T v[N];
};

template <int kBytes>
struct VectorOf {
  static_assert(kBytes == 1 || kBytes == 2 || kBytes == 4 || kBytes == 8 || kBytes == 16);
  using Word =
      std::conditional_t<kBytes == 1, unsigned char, std::conditional_t<kBytes == 2, unsigned short, unsigned>>;
  using type = std::conditional_t<kBytes == 16, uint4, std::conditional_t<kBytes == 8, uint2, Word>>;
};

template <int N, typename T>
__device__ __forceinline__ Pack<N, T> load_pack(const T* from) {
  using Word = typename VectorOf<N * sizeof(T)>::type;
  const Word word = *reinterpret_cast<const Word*>(from);
  Pack<N, T> pack;
  memcpy(&pack, &word, sizeof(pack));
  return pack;
}

// A predicated store of 4, 8 or 16 bytes. A branch around the store takes more time, and the compiler may split the
// store. kPassing: L2 evicts the bytes before others, because no kernel here reads them again.
template <int N, typename T, bool kPassing = false>
__device__ __forceinline__ void store_pack_if(bool condition, T* to, const Pack<N, T>& pack) {
  static_assert(sizeof(pack) == 4 || sizeof(pack) == 8 || sizeof(pack) == 16);
  unsigned w[sizeof(pack) / 4];
  memcpy(w, &pack, sizeof(pack));
#define TORCH_CONV_STORE(instruction, words, ...)                                                                   \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0; @p " instruction " [%1], " words "; }" ::"r"(int(condition)), \
               "l"(to), __VA_ARGS__                                                                                 \
               : "memory")
#define TORCH_CONV_STORE_WORDS(vector, words, ...)                                     \
  if constexpr (kPassing) TORCH_CONV_STORE("st.global.cs" vector, words, __VA_ARGS__); \
  else TORCH_CONV_STORE("st.global" vector, words, __VA_ARGS__)
  if constexpr (sizeof(pack) == 16) {
    TORCH_CONV_STORE_WORDS(".v4.b32", "{%2, %3, %4, %5}", "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]));
  } else if constexpr (sizeof(pack) == 8) {
    TORCH_CONV_STORE_WORDS(".v2.b32", "{%2, %3}", "r"(w[0]), "r"(w[1]));
  } else {
    TORCH_CONV_STORE_WORDS(".b32", "%2", "r"(w[0]));
  }
#undef TORCH_CONV_STORE_WORDS
#undef TORCH_CONV_STORE
}

// A predicated store of one element: branches would separate the arithmetic around stores.
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
