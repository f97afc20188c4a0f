// A kernel's source as C++ of the host: a block's threads are threads, blocks follow one another. For kernels of
// float32 that use shared memory, __syncthreads and __shfl_xor_sync, and nothing else of the device.
#pragma once

#include <array>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static

struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};
struct Index {
  unsigned x = 0, y = 0, z = 0;
};

inline thread_local Index threadIdx;
inline Index blockIdx, gridDim;
inline size_t __cvta_generic_to_shared(const void*) { return 0; }
using std::min;

namespace on_host {

struct Block {
  explicit Block(int threads) : all(threads), exchanged(threads) {
    for (int warp = 0; warp < threads / 32; ++warp) warps.push_back(std::make_unique<std::barrier<>>(32));
  }
  std::barrier<> all;
  std::vector<std::unique_ptr<std::barrier<>>> warps;
  std::vector<float> exchanged;
};

inline Block* block;

template <typename Kernel, typename Args>
void launch(Kernel kernel, Index grid, int threads, const Args& args) {
  gridDim = grid;
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) {
        Block current(threads);
        block = &current;
        std::vector<std::thread> running;
        for (int i = 0; i < threads; ++i)
          running.emplace_back([&, i] {
            threadIdx = {unsigned(i)};
            kernel(args);
          });
        for (std::thread& thread : running) thread.join();
      }
}

}  // namespace on_host

inline void __syncthreads() { on_host::block->all.arrive_and_wait(); }

inline float __shfl_xor_sync(unsigned, float value, int far) {
  std::barrier<>& warp = *on_host::block->warps[threadIdx.x / 32];
  on_host::block->exchanged[threadIdx.x] = value;
  warp.arrive_and_wait();
  const float other = on_host::block->exchanged[threadIdx.x ^ unsigned(far)];
  warp.arrive_and_wait();
  return other;
}
