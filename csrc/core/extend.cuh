// A box of an image in shared memory, extended beyond the image's edges by a border policy.
#pragma once

#include "core/border.h"
#include "core/device.cuh"

namespace torch_conv {

// Rows [top, bottom) and columns [left, right) of a box.
struct BoxPart {
  int top, bottom, left, right;
};

// Fills what lies outside the h x w image in the part of a box whose element (0, 0) is the image's (y, x): first the
// columns of rows inside the image, then whole rows. What the policy repeats lies mostly in the box itself and is read
// there, else from the image. All threads of the block; barriers before and between, the caller makes the one after.
template <int kThreads, typename T>
__device__ __forceinline__ void extend_box(T* box, int pitch, BoxPart part, const T* plane, int64_t stride_h, int h,
                                           int w, int y, int x, Border border, T outside) {
  const int top = min(max(part.top, -y), part.bottom), bottom = max(top, min(part.bottom, h - y));
  const int left = min(max(part.left, -x), part.right), right = max(left, min(part.right, w - x));
  const int columns = left - part.left + part.right - right;
  __syncthreads();
  for (int e = threadIdx.x; e < (bottom - top) * columns; e += kThreads) {
    const int r = top + e / columns, q = part.left + e % columns, i = q < left ? q : q - left + right;
    const int from = map_index(x + i, w, border), source = from - x;
    box[r * pitch + i] = from < 0                           ? outside
                         : source >= left && source < right ? box[r * pitch + source]
                                                            : plane[int64_t(y + r) * stride_h + from];
  }
  __syncthreads();
  const int width = part.right - part.left;
  for (int e = threadIdx.x; e < (top - part.top + part.bottom - bottom) * width; e += kThreads) {
    const int q = part.top + e / width, i = part.left + e % width, r = q < top ? q : q - top + bottom;
    const int from = map_index(y + r, h, border), source = from - y;
    T pixel = outside;
    if (from >= 0 && source >= top && source < bottom) {
      pixel = box[source * pitch + i];
    } else if (from >= 0) {
      const int column = map_index(x + i, w, border);
      if (column >= 0) pixel = plane[int64_t(from) * stride_h + column];
    }
    box[r * pitch + i] = pixel;
  }
}

}  // namespace torch_conv
