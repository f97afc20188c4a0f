// The taps of both passes as kernels take them.
#pragma once

#include "core/geometry.h"
#include "core/problem.h"

namespace torch_conv::separable2d {

// The two windows of a launch: in device memory, or copied into the kernel's parameters. A kernel takes it inside a
// `const __grid_constant__` parameter, so that a generic pointer to `bytes` is valid.
struct PassTaps {
  struct Pass {
    const void* device;  // null: the taps are in `bytes`, from `start` on
    int start;
    int64_t stride_n, stride_c;
  };
  Pass x, y;
  alignas(16) unsigned char bytes[2 * kInlineTapBytes];

#ifdef __CUDACC__
  template <typename A>
  __device__ const A* of(const Pass& window, int64_t n, int64_t c) const {
    const void* first = window.device ? window.device : bytes + window.start;
    return static_cast<const A*>(first) + n * window.stride_n + c * window.stride_c;
  }
#endif
};

}  // namespace torch_conv::separable2d
