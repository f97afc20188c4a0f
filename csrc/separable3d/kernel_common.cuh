// What the march is made of besides its passes: taps, and entries of its list of elements
// outside the image.
#pragma once

#include "core/device.cuh"
#include "core/march.cuh"
#include "core/tma.cuh"
#include "separable3d/params.h"

namespace torch_conv::separable3d {

// An element of the box that lies outside the image, as list_border says, and where the plane has what it repeats.
struct Patch {
  unsigned what;
  int offset;
};

template <typename T>
__device__ __forceinline__ T patched(const T* box, Patch patch, const T* plane, T value) {
  return torch_conv::patched(box, patch.what, plane, patch.offset, value);
}

// The taps of one axis: from shared memory, or, where one window for all came with the launch (kFixed), from the
// kernel's parameters, which instructions read as constants.
template <int K, bool kFixed>
__device__ __forceinline__ void read_taps(float (&tap)[K], const float* shared, const MarchParams& p, int axis) {
  if constexpr (kFixed) {
#pragma unroll
    for (int i = 0; i < K; ++i) tap[i] = reinterpret_cast<const float*>(p.taps)[axis * kTapPitch + i];
  } else {
    torch_conv::read_taps<K>(tap, shared, axis);
  }
}

}  // namespace torch_conv::separable3d
