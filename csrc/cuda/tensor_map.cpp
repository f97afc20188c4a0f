#include "cuda/tensor_map.h"

#include "cuda/driver.h"

namespace torch_conv::tma {

namespace {

struct Axis {
  int64_t count, stride;
};

// cuda.h: CUtensorMapDataType, CUtensorMapL2promotion.
constexpr int kUint8 = 0, kUint16 = 1, kFloat32 = 7;
constexpr int kL2Promotion128 = 2;  // none costs 3-4 % (measured on one NVIDIA H200)

template <int N>
TensorMap encode(const Image& x, const Axis (&outer)[N], int box_w, int box_h, int pack) {
  const int64_t size = size_of(x.dtype);
  const auto bytes = [&](const Axis& axis) { return uint64_t(axis.count == 1 ? 16 : axis.stride * size); };
  uint64_t sizes[2 + N] = {uint64_t(x.w / pack), uint64_t(x.h)}, strides[1 + N] = {bytes({x.h, x.stride_h})};
  unsigned box[2 + N] = {unsigned(box_w), unsigned(box_h)}, steps[2 + N] = {1, 1};
  for (int i = 0; i < N; ++i) {
    sizes[2 + i] = uint64_t(outer[i].count), strides[1 + i] = bytes(outer[i]);
    box[2 + i] = steps[2 + i] = 1;
  }
  const int type = size * pack == 4 ? kFloat32 : size * pack == 2 ? kUint16 : kUint8;
  TensorMap map;
  cuda::check(
      cuda::driver().encode_tiled(&map, type, 2 + N, x.data, sizes, strides, box, steps, 0, 0, kL2Promotion128, 0),
      "encoding a tensor map");
  return map;
}

}  // namespace

TensorMap plane_map(const Image& x, int box_w, int box_h, int pack) {
  return encode(x, {{x.c, x.stride_c}, {x.n, x.stride_n}}, box_w, box_h, pack);
}

TensorMap volume_map(const Image& x, int box_w, int box_h, int pack) {
  return encode(x, {{x.d, x.stride_d}, {x.c, x.stride_c}, {x.n, x.stride_n}}, box_w, box_h, pack);
}

TensorMap channels_map(const Image& x, int box_c, int box_w, int box_n, int box_h) {
  const int64_t size = size_of(x.dtype);
  const auto bytes = [&](int64_t count, int64_t stride) { return uint64_t(count == 1 ? 16 : stride * size); };
  const uint64_t sizes[] = {uint64_t(x.c), uint64_t(x.w), uint64_t(x.n), uint64_t(x.h)};
  const uint64_t strides[] = {bytes(x.w, x.stride_w), bytes(x.n, x.stride_n), bytes(x.h, x.stride_h)};
  const unsigned box[] = {unsigned(box_c), unsigned(box_w), unsigned(box_n), unsigned(box_h)}, steps[] = {1, 1, 1, 1};
  const int type = size == 4 ? kFloat32 : size == 2 ? kUint16 : kUint8;
  const int64_t inner = box_c * size;
  const int swizzle = inner == 128 ? 3 : inner == 64 ? 2 : 1;  // CUtensorMapSwizzle: of 128, 64 or 32 bytes
  TensorMap map;
  cuda::check(
      cuda::driver().encode_tiled(&map, type, 4, x.data, sizes, strides, box, steps, 0, swizzle, kL2Promotion128, 0),
      "encoding a tensor map");
  return map;
}

}  // namespace torch_conv::tma
