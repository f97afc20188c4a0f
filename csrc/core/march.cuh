// What kernels that march through volumes share on the device: taps from shared memory, single stores.
#pragma once

#include "core/extend.cuh"
#include "core/march.h"

namespace torch_conv {

// The taps of one axis from shared memory.
template <int K>
__device__ __forceinline__ void read_taps(float (&tap)[K], const float* shared, int axis) {
#pragma unroll
  for (int i = 0; i < K; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(shared + axis * kTapPitch + i);
    tap[i] = four.x;
    if (i + 1 < K) tap[i + 1] = four.y;
    if (i + 2 < K) tap[i + 2] = four.z;
    if (i + 3 < K) tap[i + 3] = four.w;
  }
}

// What an element of a box that lies outside the volume repeats, besides an element of the box by its number:
constexpr unsigned kValue = 0xffff;  // the border's value,
constexpr unsigned kFar = 0xfffe;    // or an element of the plane that is not in the box

// A predicated store: branches around stores would stand between the arithmetic.
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
