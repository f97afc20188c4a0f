// Parts of the streaming kernel besides its passes: stores, the row pass, far elements of its boxes.
#pragma once

#include "core/cuda/device.cuh"
#include "core/cuda/streaming.cuh"
#include "core/cuda/tma.cuh"
#include "core/point.h"
#include "kernels/fused3d/streaming/params.h"

namespace torch_conv::fused3d {

// A predicated store of two neighbours, as core/cuda/device.cuh has it of one.
template <typename T>
__device__ __forceinline__ unsigned short word_of(T v) {
  unsigned short word = 0;
  memcpy(&word, &v, sizeof(T) < 2 ? 1 : 2);
  return word;
}

template <typename T>
__device__ __forceinline__ void store_two_if(bool condition, T* to, T first, T second) {
  if constexpr (sizeof(T) == 4)
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.v2.f32 [%1], {%2, %3}; }" ::"r"(int(condition)),
                 "l"(to), "f"(first), "f"(second)
                 : "memory");
  else if constexpr (sizeof(T) == 2)
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.v2.b16 [%1], {%2, %3}; }" ::"r"(int(condition)),
                 "l"(to), "h"(word_of(first)), "h"(word_of(second))
                 : "memory");
  else
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.b16 [%1], %2; }" ::"r"(int(condition)), "l"(to),
                 "h"((unsigned short)(word_of(first) | word_of(second) << 8))
                 : "memory");
}

// A segment of a row of the box into row results.
template <typename T, int K>
__device__ __forceinline__ void row_pass(const T* from, float* to, bool whole, const float* taps) {
  constexpr StreamingShape S = streaming_shape(sizeof(T), K);
  float tap[K], sum[kSegment];
  read_taps<K>(tap, taps, 0);
  torch_conv::row_pass<S.vector(), S.skip()>(from, tap, sum);
  *reinterpret_cast<float4*>(to) = {sum[0], sum[1], sum[2], sum[3]};
  if (whole) *reinterpret_cast<float4*>(to + 4) = {sum[4], sum[5], sum[6], sum[7]};
}

// Planes [begin, end).
struct PlaneRange {
  int begin, end;
  __device__ __forceinline__ int count() const { return end - begin; }
  __device__ __forceinline__ bool has(int t) const { return t >= begin && t < end; }
};

// A slot of the ring of stages and the phase of its barrier.
struct Turn {
  int slot = 0, phase = 0;
  __device__ __forceinline__ void next() {
    if (++slot == kStages) slot = 0, phase ^= 1;
  }
};

// The element of the plane that a patch puts into the box, where it is far.
__device__ __forceinline__ int far_element(unsigned patch, const StreamingParams& p, const StreamingShape& s,
                                           SharedOrigin at) {
  if ((patch & 0xffff) != kFar) return 0;
  const int element = int(patch >> 16);
  return int(map_index(at.y + element / s.pitch(), p.volumes.in_h, p.border) * p.volumes.in_stride_h) +
         map_index(at.x + element % s.pitch(), p.volumes.in_w, p.border);
}

}  // namespace torch_conv::fused3d
