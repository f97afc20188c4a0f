// Bulk tensor copies (Hopper on): which images they take. runtime/tensor_map.h makes the maps, core/cuda/tma.cuh is the
// device side. Elements outside the image arrive as zeros, so a box may hang over every edge.
#pragma once

#include "core/problem.h"

namespace torch_conv {

// What the driver encodes and kernels receive as `const __grid_constant__ TensorMap`.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

}  // namespace torch_conv

namespace torch_conv::tma {

// The hardware's conditions: dense rows, 16-byte aligned base and row, channel and sample strides.
inline bool possible(const Image& x) {
  const int64_t size = size_of(x.dtype);
  auto aligned = [&](int64_t stride, int64_t count) {
    return count == 1 || (stride > 0 && stride * size % 16 == 0 && stride < (int64_t(1) << 36));
  };
  return size <= 4 && x.stride_w == 1 && reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && aligned(x.stride_h, x.h) &&
         aligned(x.stride_c, x.c) && aligned(x.stride_n, x.n) && x.w < (int64_t(1) << 31) && x.h < (int64_t(1) << 31) &&
         x.c < (int64_t(1) << 31) && x.n < (int64_t(1) << 31);
}

// Elements that travel as one: a box holds at most 256 elements a side, so narrow pixels go in words of 4 bytes.
constexpr int pack_of(int bytes) { return bytes >= 4 ? 1 : 4 / bytes; }

// The same in such words.
inline bool vectors_possible(const Image& x) { return possible(x) && x.w % pack_of(size_of(x.dtype)) == 0; }

// The same for volumes.
inline bool volume_possible(const Image& x) {
  const int64_t stride = x.stride_d * size_of(x.dtype);
  return possible(x) && (x.d == 1 || (stride > 0 && stride % 16 == 0 && x.stride_d < (int64_t(1) << 36))) &&
         x.d < (int64_t(1) << 31);
}

// ... in such words.
inline bool volume_vectors_possible(const Image& x) {
  return volume_possible(x) && x.w % pack_of(size_of(x.dtype)) == 0;
}

// Images whose channels lie innermost: 16-byte aligned base and pixel, row and sample strides.
inline bool channels_possible(const Image& x) {
  const int64_t size = size_of(x.dtype), most = int64_t(1) << 31;
  auto aligned = [&](int64_t stride, int64_t count) {
    return count == 1 || (stride > 0 && stride * size % 16 == 0 && stride < (int64_t(1) << 36));
  };
  return size <= 4 && (x.stride_c == 1 || x.c == 1) && reinterpret_cast<uintptr_t>(x.data) % 16 == 0 &&
         aligned(x.stride_w, x.w) && aligned(x.stride_h, x.h) && aligned(x.stride_n, x.n) && x.c < most && x.w < most &&
         x.h < most && x.n < most;
}

// How many columns a grid of tiles starts left of the output, so that boxes start on `align` elements also where the
// window's tap `middle`, by which the grid goes, does not lie on the output pixel (other anchors, 'valid'). A bulk copy
// that starts elsewhere than on 16 bytes is an illegal instruction.
inline int lead_columns(int64_t middle, int64_t pad, int align) {
  const int shift = int((middle - pad) % align);
  return (shift + align) % align;
}

}  // namespace torch_conv::tma
