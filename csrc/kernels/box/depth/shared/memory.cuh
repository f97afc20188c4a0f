// The instructions of depth passes that C++ has no words for.
#pragma once

#include "core/cuda/device.cuh"

namespace torch_conv::box {

// Outputs leave L2 before the sums, because no kernel here reads them again.
template <int N, typename T>
__device__ __forceinline__ void store_passing(bool condition, T* to, const Pack<N, T>& pack) {
  unsigned w[sizeof(pack) / 4];
  memcpy(w, &pack, sizeof(pack));
  if constexpr (sizeof(pack) == 16)
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.cs.v4.b32 [%1], {%2, %3, %4, %5}; }" ::"r"(int(condition)),
        "l"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
        : "memory");
  else
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.cs.v2.b32 [%1], {%2, %3}; }" ::"r"(int(condition)),
                 "l"(to), "r"(w[0]), "r"(w[1])
                 : "memory");
}

}  // namespace torch_conv::box
