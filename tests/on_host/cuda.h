// A kernel's source as C++ of the host: a block's threads are fibers, blocks follow one another. For kernels that use
// shared memory, barriers and shuffles; shims/core has what is PTX elsewhere.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

#include "fibers.h"

#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))

struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};
struct float4 {
  float x, y, z, w;
};

inline size_t __cvta_generic_to_shared(const void* p) { return reinterpret_cast<size_t>(p); }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
using std::max;
using std::min;

namespace on_host {

struct Block {
  explicit Block(int threads) : all{threads}, warps(threads / 32, Barrier{32}), exchanged(threads) {}
  Barrier all;
  std::vector<Barrier> warps;
  std::vector<unsigned> exchanged;
};

inline Block* block;

// `prepare`: before every block.
template <typename Prepare, typename Kernel, typename... Args>
void launch_prepared(const Prepare& prepare, Kernel kernel, Index grid, Index threads, const Args&... args) {
  gridDim = grid, blockDim = threads;
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) {
        prepare();
        Block current(int(threads.x * threads.y * threads.z));
        block = &current;
        run_block(threads, [&] { kernel(args...); });
      }
}

template <typename Kernel, typename... Args>
void launch(Kernel kernel, Index grid, int threads, const Args&... args) {
  launch_prepared([] {}, kernel, grid, {unsigned(threads), 1, 1}, args...);
}

}  // namespace on_host

template <typename T>
T __ldg(const T* from) {
  return *from;
}

inline void __syncthreads() { on_host::block->all.arrive_and_wait(); }

inline bool __syncthreads_or(bool value) {
  unsigned* const values = on_host::block->exchanged.data();
  values[threadIdx.x] = value;
  __syncthreads();
  const bool any = std::count(values, values + blockDim.x, 0u) < std::ptrdiff_t(blockDim.x);
  __syncthreads();
  return any;
}

inline void __syncwarp() { on_host::block->warps[threadIdx.x / 32].arrive_and_wait(); }

namespace on_host {

// What lane `from` of the warp has.
template <typename T>
T of_lane(T value, unsigned from) {
  static_assert(sizeof(T) == 4);
  const unsigned first = threadIdx.x / 32 * 32;
  memcpy(&block->exchanged[threadIdx.x], &value, 4);
  __syncwarp();
  memcpy(&value, &block->exchanged[first + from], 4);
  __syncwarp();
  return value;
}

}  // namespace on_host

template <typename T>
T __shfl_sync(unsigned, T value, int from) {
  return on_host::of_lane(value, unsigned(from) % 32);
}

template <typename T>
T __shfl_xor_sync(unsigned, T value, int far) {
  return on_host::of_lane(value, threadIdx.x % 32 ^ unsigned(far));
}

template <typename T>
T __shfl_up_sync(unsigned, T value, int far) {
  const int from = int(threadIdx.x % 32) - far;
  return on_host::of_lane(value, from >= 0 ? unsigned(from) : threadIdx.x % 32);
}

template <typename T>
T __shfl_down_sync(unsigned, T value, int far) {
  const unsigned from = threadIdx.x % 32 + far;
  return on_host::of_lane(value, from < 32 ? from : threadIdx.x % 32);
}

inline unsigned __reduce_max_sync(unsigned, unsigned value) {
  for (int far = 1; far < 32; far *= 2) value = std::max(value, __shfl_xor_sync(~0u, value, far));
  return value;
}

namespace on_host {
inline int votes = 0;  // that __any_sync found
}
inline bool __any_sync(unsigned, bool value) {
  const bool any = __reduce_max_sync(~0u, value) != 0;
  on_host::votes += any;
  return any;
}

inline bool __all_sync(unsigned, bool value) { return __reduce_max_sync(~0u, !value) == 0; }

inline unsigned __ballot_sync(unsigned, bool value) {
  unsigned lanes = unsigned(value) << threadIdx.x % 32;
  for (int far = 1; far < 32; far *= 2) lanes |= __shfl_xor_sync(~0u, lanes, far);
  return lanes;
}

inline int __ffs(unsigned bits) { return __builtin_ffs(int(bits)); }

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

inline unsigned __float_as_uint(float value) {
  unsigned bits;
  memcpy(&bits, &value, 4);
  return bits;
}

inline float __uint_as_float(unsigned bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

inline unsigned __byte_perm(unsigned low, unsigned high, unsigned which) {
  const uint64_t bytes = uint64_t(high) << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) result |= unsigned(bytes >> (which >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return result;
}

inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned bits) {
  return unsigned((uint64_t(high) << 32 | low) >> (bits & 31));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned bits) {
  return unsigned((uint64_t(high) << 32 | low) << (bits & 31) >> 32);
}
