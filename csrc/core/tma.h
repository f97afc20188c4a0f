// The images that bulk tensor copies (Hopper on) can read. runtime/tensor_map.h encodes the maps, core/cuda/tma.cuh
// copies. Elements outside the image are zeros in a box, so that a box may extend over every edge.
#pragma once

#include "core/problem.h"

namespace torch_conv {

// A CUtensorMap of the driver. A kernel's parameter is `const __grid_constant__ TensorMap`.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

}  // namespace torch_conv

namespace torch_conv::tma {

constexpr int64_t kMostCount = int64_t(1) << 31, kMostStride = int64_t(1) << 36;  // exclusive

// The hardware's conditions on an axis other than the innermost one.
inline bool axis_possible(const Image& x, int64_t stride, int64_t count) {
  const bool aligned = stride > 0 && stride * size_of(x.dtype) % 16 == 0 && stride < kMostStride;
  return count < kMostCount && (count == 1 || aligned);
}

inline bool base_possible(const Image& x) {
  return size_of(x.dtype) <= 4 && reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

// Dense rows, 16-byte aligned base and row, channel and sample strides.
inline bool possible(const Image& x) {
  return base_possible(x) && x.stride_w == 1 && x.w < kMostCount && axis_possible(x, x.stride_h, x.h) &&
         axis_possible(x, x.stride_c, x.c) && axis_possible(x, x.stride_n, x.n);
}

// Pixels that are copied as one element. A box has at most 256 elements a side, so narrow pixels are copied in words of
// 4 bytes.
constexpr int pack_of(int bytes) { return bytes >= 4 ? 1 : 4 / bytes; }

// Whether bulk copies can read the image in elements of pack_of() pixels.
inline bool vectors_possible(const Image& x) { return possible(x) && x.w % pack_of(size_of(x.dtype)) == 0; }

// Whether bulk copies can read the volume.
inline bool volume_possible(const Image& x) { return possible(x) && axis_possible(x, x.stride_d, x.d); }

// Whether bulk copies can read the volume in elements of pack_of() pixels.
inline bool volume_vectors_possible(const Image& x) {
  return volume_possible(x) && x.w % pack_of(size_of(x.dtype)) == 0;
}

// Whether bulk copies can read an image with innermost channels: 16-byte aligned base and pixel, row and sample
// strides.
inline bool channels_possible(const Image& x) {
  return base_possible(x) && (x.stride_c == 1 || x.c == 1) && x.c < kMostCount && axis_possible(x, x.stride_w, x.w) &&
         axis_possible(x, x.stride_h, x.h) && axis_possible(x, x.stride_n, x.n);
}

// The columns by which a grid of tiles starts left of the output, so that boxes start on `align` elements. The
// result is 0 if tap `middle` of the window reads the output's pixel, but not for other anchors and 'valid'. A bulk
// copy that does not start on 16 bytes is an illegal instruction.
inline int lead_columns(int64_t middle, int64_t pad, int align) {
  const int shift = int((middle - pad) % align);
  return (shift + align) % align;
}

}  // namespace torch_conv::tma
