// The pointwise end of a stage on whole images and volumes, where a chain is taken apart: one thread a pixel, any
// layout and dtype. Bytes: one read of every sum, one write of every output.
#pragma once

#include "core/device.cuh"
#include "core/point.h"
#include "core/store.cuh"
#include "fused/combine.h"

namespace torch_conv::fused {

struct Pixel {
  int64_t n, c, z, y, x;
};

__device__ __forceinline__ int64_t offset(const Image& image, const Pixel& at) {
  return at.n * image.stride_n + at.c * image.stride_c + at.z * image.stride_d + at.y * image.stride_h +
         at.x * image.stride_w;
}

template <typename A>
__device__ __forceinline__ A read(const Image& image, const Pixel& at) {
  return static_cast<const A*>(image.data)[offset(image, at)];
}

// The pixel for `sharpen` is of the chain's input, whose dtype is known only at run time.
template <typename A>
__device__ A read_any(const Image& image, const Pixel& at) {
  const int64_t i = offset(image, at);
  return with_type(image.dtype,
                   [&](auto zero) { return to_acc<A>(static_cast<const decltype(zero)*>(image.data)[i]); });
}

template <Point P, int Windows, typename A>
__device__ __forceinline__ void combine(const Combine& p, const Pixel& at) {
  constexpr int kOutputs = count_outputs(P, Windows);
  A out[kOutputs];
  if constexpr (P == Point::thin) {
    const auto m = [&](int dy, int dx) {
      const Pixel near{at.n, at.c, at.z, at.y + dy, at.x + dx};
      const bool inside = near.y >= 0 && near.y < p.out.h && near.x >= 0 && near.x < p.out.w;
      return inside ? read<A>(p.sums[0], near) : A(0);
    };
    out[0] = thinned(m, read<A>(p.sums[1], at), read<A>(p.sums[2], at));
  } else {
    A s[Windows], pixel = 0;
#pragma unroll
    for (int i = 0; i < Windows; ++i) s[i] = read<A>(p.sums[i], at);
    if constexpr (P == Point::sharpen) pixel = read_any<A>(p.centre, at);
    apply_point<P, Windows>(s, pixel, A(p.number), out);
    if (P == Point::sharpen &&
        (at.y < p.margin_y || at.y >= p.out.h - p.margin_y || at.x < p.margin_x || at.x >= p.out.w - p.margin_x))
      out[0] = 0;
  }
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) store_as(p.out, o * p.stride_output + offset(p.out, at), out[o]);
}

template <Point P, typename A>
__device__ __forceinline__ void combine(const Combine& p, const Pixel& at) {
  if constexpr (combines(P, 1))
    if (p.windows == 1) combine<P, 1, A>(p, at);
  if constexpr (combines(P, 2))
    if (p.windows == 2) combine<P, 2, A>(p, at);
  if constexpr (combines(P, 3))
    if (p.windows == 3) combine<P, 3, A>(p, at);
}

template <typename A>
__global__ void __launch_bounds__(kCombineThreads) fused_combine(const __grid_constant__ Combine p, int64_t pixels) {
  int64_t rest = int64_t(blockIdx.x) * kCombineThreads + threadIdx.x;
  if (rest >= pixels) return;
  Pixel at;
  at.x = rest % p.out.w, rest /= p.out.w;
  at.y = rest % p.out.h, rest /= p.out.h;
  at.z = rest % p.out.d, rest /= p.out.d;
  at.c = rest % p.out.c, at.n = rest / p.out.c;
  switch (p.point) {
    case Point::each: return;  // refused by the plan
    case Point::sum: return combine<Point::sum, A>(p, at);
    case Point::l1: return combine<Point::l1, A>(p, at);
    case Point::l2: return combine<Point::l2, A>(p, at);
    case Point::products: return combine<Point::products, A>(p, at);
    case Point::sharpen: return combine<Point::sharpen, A>(p, at);
    case Point::polar: return combine<Point::polar, A>(p, at);
    case Point::thin: return combine<Point::thin, A>(p, at);
  }
}

}  // namespace torch_conv::fused
