// Host taps as kernels receive them: in their parameters.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/problem.h"

namespace torch_conv {

// A kernel takes it as `const __grid_constant__ ParamTaps taps`.
struct ParamTaps {
  const void* device;  // null: the taps stand in `bytes`
  alignas(16) unsigned char bytes[kInlineTapBytes];

  static ParamTaps from(const Taps& taps, int64_t count_bytes) {
    ParamTaps p;
    p.device = taps.on_host ? nullptr : taps.data;
    if (taps.on_host) memcpy(p.bytes, taps.data, count_bytes);
    return p;
  }

#ifdef __CUDACC__
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
#endif
};

}  // namespace torch_conv
