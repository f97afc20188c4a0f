// Host taps in a kernel's parameters.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/problem.h"

namespace torch_conv {

// A kernel's parameter is `const __grid_constant__ ParamTaps taps`.
struct ParamTaps {
  const void* device;  // null: the taps are in `bytes`
  alignas(16) unsigned char bytes[kInlineTapBytes];

  // Copies host taps; all windows of a problem are at most kInlineTapBytes.
  static ParamTaps of(const Direct& p) {
    const int64_t channels = p.taps.stride_c ? p.out.c : 1, samples = p.taps.stride_n ? p.out.n : 1;
    const int64_t count = p.kd * p.kh * p.kw * (p.in.c / p.groups) * channels * samples;
    ParamTaps t;
    t.device = p.taps.on_host ? nullptr : p.taps.data;
    const int64_t each = p.taps.narrow ? size_of(p.in.dtype) : acc_bytes(p.in.dtype);
    if (p.taps.on_host) memcpy(t.bytes, p.taps.data, count * each);
    return t;
  }

#ifdef __CUDACC__
  // A pointer into parameter space or device memory.
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
