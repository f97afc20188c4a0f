// What every CUDA room needs around its launches.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "core/problem.h"

namespace torch_conv {

inline void cuda_check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
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

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Host taps inside the kernel's parameters. A kernel takes it as `const __grid_constant__ ParamTaps taps` and reads
// through `taps.first()`: one pointer, either to the parameter space or to device memory.
struct ParamTaps {
  const void* device;
  alignas(16) unsigned char bytes[kInlineTapBytes];

  static ParamTaps from(const Taps& taps, int64_t count_bytes) {
    ParamTaps p;
    p.device = taps.on_host ? nullptr : taps.data;
    if (taps.on_host) memcpy(p.bytes, taps.data, count_bytes);
    return p;
  }
  template <typename A>
  __device__ const A* first() const {
    return static_cast<const A*>(device ? device : static_cast<const void*>(bytes));
  }
};

}  // namespace torch_conv
