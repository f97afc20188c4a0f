// What the march is made of besides its passes: taps, and the border of its boxes.
#pragma once

#include "core/device.cuh"
#include "core/march.cuh"
#include "core/tma.cuh"
#include "separable3d/params.h"

namespace torch_conv::separable3d {

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

// An element of the box that lies outside the image, in the upper 16 bits of `what`; the lower ones are the element of
// the box that it repeats, or kValue, or kFar for element `offset` of the plane.
struct Patch {
  unsigned what;
  int offset;
};

// Lists what lies outside the image among the h x w elements of the box that outputs need, from element (0, left) on:
// the columns of rows inside, then whole rows; returns how many. Neighbouring lanes patch neighbouring elements.
template <typename T, int K>
__device__ __forceinline__ int list_border(Patch* list, const MarchParams& p, BoxOrigin at, int left, int h, int w) {
  constexpr MarchShape S = march_shape(sizeof(T), K);
  const int x0 = at.x + left;
  const int above = min(max(-at.y, 0), h), below = min(max(at.y + h - p.in_h, 0), h - above),
            inside = h - above - below;
  const int before = min(max(-x0, 0), w), behind = min(max(x0 + w - p.in_w, 0), w - before), columns = before + behind;
  const int count = inside * columns + (above + below) * w;
  for (int i = threadIdx.x; i < count; i += S.threads()) {
    const int j = i - inside * columns, q = j < 0 ? i % columns : j / w;
    const int r = j < 0 ? above + i / columns : q < above ? q : q + inside;
    const int c = j >= 0 ? j % w : q < before ? q : q + w - columns;
    const int my = map_index(at.y + r, p.in_h, p.border), mx = map_index(x0 + c, p.in_w, p.border);
    const int br = my - at.y, bc = mx - at.x;
    const bool near = br >= 0 && br < S.box_h() && bc >= 0 && bc < S.pitch();
    const unsigned source = my < 0 || mx < 0 ? kValue : near ? unsigned(br * S.pitch() + bc) : kFar;
    list[i] = {unsigned(r * S.pitch() + left + c) << 16 | source, int(my * p.in_stride_h) + mx};
  }
  return count;
}

// What a patch puts into the box.
template <typename T>
__device__ __forceinline__ T patched(const T* box, Patch patch, const T* plane, T value) {
  const unsigned source = patch.what & 0xffff;
  return source < kFar ? box[source] : source == kFar ? plane[patch.offset] : value;
}

}  // namespace torch_conv::separable3d
