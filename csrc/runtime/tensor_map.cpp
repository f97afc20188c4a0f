#include "runtime/tensor_map.h"

#include <algorithm>
#include <initializer_list>

#include "runtime/driver.h"

namespace torch_conv::tma {

namespace {

struct MapAxis {
  int64_t count, stride;
};

// cuda.h: CUtensorMapDataType, CUtensorMapL2promotion.
constexpr int kUint8 = 0, kUint16 = 1, kUint64 = 4, kFloat32 = 7;
constexpr int kL2Promotion128 = 2;  // none costs 3-4 % (measured on one NVIDIA H200)

// `inner` dense elements of `pack` pixels, then `axes` from the innermost. `box`: its first extents; the others are 1.
// `swizzle`: CUtensorMapSwizzle, 0 for none, 1, 2, 3 of 32, 64 or 128 bytes.
TensorMap encode(const Image& x, int64_t inner, std::initializer_list<MapAxis> axes, std::initializer_list<int> box,
                 int pack, int swizzle) {
  constexpr int kMostAxes = 5;
  const int64_t size = size_of(x.dtype), bytes = size * pack;
  uint64_t sizes[kMostAxes] = {uint64_t(inner)}, strides[kMostAxes - 1];
  unsigned extents[kMostAxes] = {1, 1, 1, 1, 1};
  const unsigned steps[kMostAxes] = {1, 1, 1, 1, 1};
  std::copy(box.begin(), box.end(), extents);
  unsigned rank = 1;
  for (const MapAxis& axis : axes) {
    strides[rank - 1] = uint64_t(axis.count == 1 ? 16 : axis.stride * size);
    sizes[rank++] = uint64_t(axis.count);
  }
  const int type = bytes == 8 ? kUint64 : bytes == 4 ? kFloat32 : bytes == 2 ? kUint16 : kUint8;
  TensorMap map;
  cuda::check(cuda::driver().encode_tiled(&map, type, rank, x.data, sizes, strides, extents, steps, 0, swizzle,
                                          kL2Promotion128, 0),
              "encoding a tensor map");
  return map;
}

}  // namespace

TensorMap plane_map(const Image& x, int box_w, int box_h, int pack) {
  return encode(x, x.w / pack, {{x.h, x.stride_h}, {x.c, x.stride_c}, {x.n, x.stride_n}}, {box_w, box_h}, pack, 0);
}

TensorMap rows_map(const Image& x, int box_h) {
  const int box_w = int(128 / size_of(x.dtype));
  return encode(x, x.w, {{x.h, x.stride_h}, {x.c, x.stride_c}, {x.n, x.stride_n}}, {box_w, box_h}, 1, 3);
}

TensorMap volume_map(const Image& x, int box_w, int box_h, int pack) {
  return encode(x, x.w / pack, {{x.h, x.stride_h}, {x.d, x.stride_d}, {x.c, x.stride_c}, {x.n, x.stride_n}},
                {box_w, box_h}, pack, 0);
}

TensorMap pixels_map(const Image& x, int box_c, int box_w, int box_h) {
  return encode(x, x.c, {{x.w, x.stride_w}, {x.h, x.stride_h}, {x.n, x.stride_n}}, {box_c, box_w, box_h}, 1, 0);
}

TensorMap channels_map(const Image& x, int box_c, int box_w, int box_n, int box_h) {
  const int64_t inner = box_c * size_of(x.dtype);
  const int swizzle = inner == 128 ? 3 : inner == 64 ? 2 : 1;
  return encode(x, x.c, {{x.w, x.stride_w}, {x.n, x.stride_n}, {x.h, x.stride_h}}, {box_c, box_w, box_n, box_h}, 1,
                swizzle);
}

}  // namespace torch_conv::tma
