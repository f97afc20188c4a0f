// Parts of the streaming kernel besides its passes: taps, and entries of its list of elements outside the image.
#pragma once

#include "core/cuda/async_copy.cuh"
#include "core/cuda/device.cuh"
#include "core/cuda/streaming.cuh"
#include "core/cuda/tma.cuh"
#include "kernels/separable3d/streaming/params.h"

namespace torch_conv::separable3d {

// An element of the box outside the image, from list_border, and the offset of its source in the plane.
struct Patch {
  unsigned what;
  int offset;
};

template <typename T>
__device__ __forceinline__ T patched(const T* box, Patch patch, const T* plane, T value) {
  return torch_conv::patched(box, patch.what, plane, patch.offset, value);
}

// Copies the box's elements inside the plane one by one: warps take rows, lanes neighbours. Elements
// outside stay unchanged. All threads.
template <StreamingTile S, typename T>
__device__ __forceinline__ void copy_box(T* box, const T* plane, SharedOrigin at, const VolumeGeometry& v) {
  constexpr int kWidth = S.pitch();  // all that patches may repeat
  const int lane = threadIdx.x % 32, x = at.x + lane, bottom = min(at.y + S.box_h(), v.in_h);
  int y = max(at.y, 0) + threadIdx.x / 32;
  const T* from = plane + (y * int(v.in_stride_h) + x);
  T* to = box + (y - at.y) * S.pitch() + lane;
#pragma unroll 1
  for (; y < bottom; y += S.warps, from += S.warps * v.in_stride_h, to += S.warps * S.pitch())
#pragma unroll
    for (int i = 0; i < kWidth; i += 32)
      if (lane + i < kWidth && unsigned(x + i) < unsigned(v.in_w)) async_copy<sizeof(T)>(to + i, from + i);
}

// The taps of one axis: from shared memory, or, where one window for all came with the launch (kFixed), from the
// kernel's parameters, which instructions read as constants.
template <int K, bool kFixed>
__device__ __forceinline__ void read_taps(float (&tap)[K], const float* shared, const StreamingParams& p, int axis) {
  if constexpr (kFixed) {
#pragma unroll
    for (int i = 0; i < K; ++i) tap[i] = reinterpret_cast<const float*>(p.taps)[axis * kTapPitch + i];
  } else {
    torch_conv::read_taps<K>(tap, shared, axis);
  }
}

}  // namespace torch_conv::separable3d
