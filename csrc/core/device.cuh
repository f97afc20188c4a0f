// What every CUDA room needs around its launches.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "core/problem.h"

namespace torch_conv {

inline void cuda_check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // it has been said: the next good launch must not find it
  throw std::runtime_error(std::string("torch_conv: ") + what + " failed: " + cudaGetErrorString(status));
}

// After <<<>>>: a failed launch is an error at that call, never a silent wrong result.
inline void launch_check(const char* kernel) { cuda_check(cudaGetLastError(), kernel); }

// Blocks above 48 KiB of dynamic shared memory must ask for it once per kernel and device; asking is cheap.
template <typename Kernel>
void allow_shared(Kernel* kernel, int bytes) {
  if (bytes > 48 * 1024)
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "shared memory limit");
}

// A pointer into shared memory as the address that instructions take.
__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Host taps inside the kernel's parameters. A kernel takes it as `const __grid_constant__ ParamTaps taps`.
struct ParamTaps {
  const void* device;  // null: the taps stand in `bytes`
  alignas(16) unsigned char bytes[kInlineTapBytes];

  static ParamTaps from(const Taps& taps, int64_t count_bytes) {
    ParamTaps p;
    p.device = taps.on_host ? nullptr : taps.data;
    if (taps.on_host) memcpy(p.bytes, taps.data, count_bytes);
    return p;
  }
  // One pointer for both, into parameter space or device memory.
  template <typename A>
  __device__ const A* first() const {
    return static_cast<const A*>(device ? device : static_cast<const void*>(bytes));
  }
  // N taps from element `start` on into registers.
  template <typename A, int N>
  __device__ __forceinline__ void read(A (&tap)[N], int64_t start) const {
    if (device) {
      const A* from = static_cast<const A*>(device) + start;
#pragma unroll
      for (int i = 0; i < N; ++i) tap[i] = __ldg(from + i);
    } else {
      const A* from = reinterpret_cast<const A*>(bytes) + start;
#pragma unroll
      for (int i = 0; i < N; ++i) tap[i] = from[i];
    }
  }
};

// N elements that travel as one aligned word: 2, 4, 8 or 16 bytes. Loads and stores are written as words, because the
// compiler takes element-wise copies of 8- and 16-bit types apart.
template <int N, typename T>
struct alignas(N * sizeof(T)) Pack {
  T v[N];
};

template <int Bytes>
struct WordOf;
template <>
struct WordOf<2> {
  using type = unsigned short;
};
template <>
struct WordOf<4> {
  using type = unsigned;
};
template <>
struct WordOf<8> {
  using type = uint2;
};
template <>
struct WordOf<16> {
  using type = uint4;
};

template <int N, typename T>
__device__ __forceinline__ Pack<N, T> load_pack(const T* from) {
  using Word = typename WordOf<N * sizeof(T)>::type;
  const Word word = *reinterpret_cast<const Word*>(from);
  Pack<N, T> pack;
  memcpy(&pack, &word, sizeof(pack));
  return pack;
}

// A predicated 8- or 16-byte store: a branch around it costs more than the store, and lets the compiler split it.
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
  else static_assert(sizeof(pack) == 8, "8 or 16 bytes");
}

}  // namespace torch_conv
