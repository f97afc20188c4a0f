#include "runtime/tensor_map.h"

#include <array>

#include "runtime/driver.h"

namespace torch_conv::tma {

namespace {

struct Axis {
  int64_t count, stride;
};

// cuda.h: CUtensorMapDataType, CUtensorMapL2promotion.
constexpr int kUint8 = 0, kUint16 = 1, kUint64 = 4, kFloat32 = 7;
constexpr int kL2Promotion128 = 2;  // none costs 3-4 % (measured on one NVIDIA H200)

// `swizzle`: CUtensorMapSwizzle, 0 for none, 1, 2, 3 of 32, 64 or 128 bytes.
template <int N>
TensorMap encode(const Image& x, const Axis (&outer)[N], int box_w, int box_h, int pack, int swizzle = 0) {
  const int64_t size = size_of(x.dtype);
  const auto bytes = [&](const Axis& axis) { return uint64_t(axis.count == 1 ? 16 : axis.stride * size); };
  uint64_t sizes[2 + N] = {uint64_t(x.w / pack), uint64_t(x.h)}, strides[1 + N] = {bytes({x.h, x.stride_h})};
  unsigned box[2 + N] = {unsigned(box_w), unsigned(box_h)}, steps[2 + N] = {1, 1};
  for (int i = 0; i < N; ++i) {
    sizes[2 + i] = uint64_t(outer[i].count), strides[1 + i] = bytes(outer[i]);
    box[2 + i] = steps[2 + i] = 1;
  }
  const int64_t together = size * pack;
  const int type = together == 8 ? kUint64 : together == 4 ? kFloat32 : together == 2 ? kUint16 : kUint8;
  TensorMap map;
  cuda::check(cuda::driver().encode_tiled(&map, type, 2 + N, x.data, sizes, strides, box, steps, 0, swizzle,
                                          kL2Promotion128, 0),
              "encoding a tensor map");
  return map;
}

// Channels innermost.
TensorMap encode_channels(const Image& x, const Axis (&axes)[3], const std::array<unsigned, 4>& box, int swizzle) {
  const int64_t size = size_of(x.dtype);
  uint64_t sizes[4] = {uint64_t(x.c)}, strides[3];
  for (int i = 0; i < 3; ++i)
    sizes[1 + i] = uint64_t(axes[i].count), strides[i] = uint64_t(axes[i].count == 1 ? 16 : axes[i].stride * size);
  const unsigned steps[] = {1, 1, 1, 1};
  const int type = size == 4 ? kFloat32 : size == 2 ? kUint16 : kUint8;
  TensorMap map;
  cuda::check(cuda::driver().encode_tiled(&map, type, 4, x.data, sizes, strides, box.data(), steps, 0, swizzle,
                                          kL2Promotion128, 0),
              "encoding a tensor map");
  return map;
}

}  // namespace

TensorMap plane_map(const Image& x, int box_w, int box_h, int pack) {
  return encode(x, {{x.c, x.stride_c}, {x.n, x.stride_n}}, box_w, box_h, pack);
}

TensorMap rows_map(const Image& x, int box_h) {
  return encode(x, {{x.c, x.stride_c}, {x.n, x.stride_n}}, int(128 / size_of(x.dtype)), box_h, 1, 3);
}

TensorMap volume_map(const Image& x, int box_w, int box_h, int pack) {
  return encode(x, {{x.d, x.stride_d}, {x.c, x.stride_c}, {x.n, x.stride_n}}, box_w, box_h, pack);
}

TensorMap pixels_map(const Image& x, int box_c, int box_w, int box_h) {
  const Axis axes[] = {{x.w, x.stride_w}, {x.h, x.stride_h}, {x.n, x.stride_n}};
  return encode_channels(x, axes, {unsigned(box_c), unsigned(box_w), unsigned(box_h), 1}, 0);
}

TensorMap channels_map(const Image& x, int box_c, int box_w, int box_n, int box_h) {
  const Axis axes[] = {{x.w, x.stride_w}, {x.n, x.stride_n}, {x.h, x.stride_h}};
  const int64_t inner = box_c * size_of(x.dtype);
  return encode_channels(x, axes, {unsigned(box_c), unsigned(box_w), unsigned(box_n), unsigned(box_h)},
                         inner == 128  ? 3
                         : inner == 64 ? 2
                                       : 1);
}

}  // namespace torch_conv::tma
