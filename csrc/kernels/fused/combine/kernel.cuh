// The pointwise end of a stage on whole images and volumes, where a chain runs filter by filter. A thread takes V
// neighbouring pixels, as one vector of at most 16 bytes of every image and output, or one pixel of any layout. Bytes:
// one read of every sum, one write of every output.
#pragma once

#include "core/activation.h"
#include "core/cuda/device.cuh"
#include "core/cuda/store.cuh"
#include "core/point.h"
#include "kernels/fused/combine/combine.h"

namespace torch_conv::fused {

// A thread's first one.
struct Pixel {
  int64_t n, c, z, y, x;
};

// Vector `rest` of an image in the order n, c, z, y, x; `w` of them are a row.
template <int V, typename Index>
__device__ __forceinline__ Pixel pixel_of(const Image& image, Index rest, Index w) {
  Pixel at;
  at.x = int64_t(rest % w) * V, rest /= w;
  at.y = rest % Index(image.h), rest /= Index(image.h);
  at.z = rest % Index(image.d), rest /= Index(image.d);
  at.c = rest % Index(image.c), at.n = rest / Index(image.c);
  return at;
}

__device__ __forceinline__ int64_t offset(const Image& image, const Pixel& at) {
  return at.n * image.stride_n + at.c * image.stride_c + at.z * image.stride_d + at.y * image.stride_h +
         at.x * image.stride_w;
}

template <typename T, int V, typename A>
__device__ __forceinline__ void read_vector(const Image& image, const Pixel& at, A (&to)[V]) {
  const auto pack = load_pack<V>(static_cast<const T*>(image.data) + offset(image, at));
#pragma unroll
  for (int v = 0; v < V; ++v) to[v] = to_acc<A>(pack.v[v]);
}

// The pixels for `sharpen` are from the chain's input, whose dtype is known only at run time.
template <int V, typename A>
__device__ void read_any(const Image& image, const Pixel& at, A (&to)[V]) {
  with_type(image.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (V * sizeof(T) <= 16) read_vector<T>(image, at, to);
  });
}

template <Point P, int Windows, typename A, int V>
__device__ __forceinline__ void combine(const Combine& p, const Pixel& at) {
  constexpr int kOutputs = count_outputs(P, Windows);
  A sums[Windows][V], centre[V] = {}, out[kOutputs][V];
#pragma unroll
  for (int i = P == Point::thin; i < Windows; ++i) read_vector<A>(p.sums[i], at, sums[i]);
  if constexpr (P == Point::sharpen) read_any(p.centre, at, centre);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const int64_t x = at.x + v;
    if constexpr (P == Point::thin) {
      const Image& squares = p.sums[0];
      const A* const first = static_cast<const A*>(squares.data) + offset(squares, at);
      const auto m = [&](int dy, int dx) {
        const bool inside = at.y + dy >= 0 && at.y + dy < p.out.h && x + dx >= 0 && x + dx < p.out.w;
        return inside ? first[dy * squares.stride_h + (v + dx) * squares.stride_w] : A(0);
      };
      out[0][v] = thinned(m, sums[1][v], sums[2][v]);
    } else {
      A s[Windows], made[kOutputs];
#pragma unroll
      for (int i = 0; i < Windows; ++i) s[i] = sums[i][v];
      apply_point<P, Windows>(s, centre[v], A(p.number), made);
      if (P == Point::sharpen &&
          (at.y < p.margin_y || at.y >= p.out.h - p.margin_y || x < p.margin_x || x >= p.out.w - p.margin_x))
        made[0] = 0;
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) out[o][v] = made[o];
    }
  }
  if constexpr (P == Point::sum && Windows == 1)
    with_activation(p.activation, [&](auto kind) {
#pragma unroll
      for (int v = 0; v < V; ++v) out[0][v] = activated<decltype(kind)::value>(out[0][v]);
    });
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) store_as(p.out, o * p.stride_output + offset(p.out, at), out[o]);
}

template <Point P, typename A, int V>
__device__ __forceinline__ void combine(const Combine& p, const Pixel& at) {
  if constexpr (combines(P, 1))
    if (p.windows == 1) combine<P, 1, A, V>(p, at);
  if constexpr (combines(P, 2))
    if (p.windows == 2) combine<P, 2, A, V>(p, at);
  if constexpr (combines(P, 3))
    if (p.windows == 3) combine<P, 3, A, V>(p, at);
}

// V > 1: rows are whole vectors that start on one, in all images.
template <typename A, int V>
__global__ void __launch_bounds__(kCombineThreads) fused_combine(const __grid_constant__ Combine p, int64_t vectors) {
  const int64_t own = int64_t(blockIdx.x) * kCombineThreads + threadIdx.x, w = p.out.w / V;
  if (own >= vectors) return;
  // Divisions take longer than all else here, those of 64 bits several times as long.
  Pixel at{.n = 0, .c = 0, .z = 0, .y = 0, .x = own * V};
  if (vectors > ~0u) at = pixel_of<V, int64_t>(p.out, own, w);
  else if (vectors > w) at = pixel_of<V, unsigned>(p.out, own, w);
  switch (p.point) {
    case Point::each: return;  // refused by the plan
    case Point::sum: return combine<Point::sum, A, V>(p, at);
    case Point::l1: return combine<Point::l1, A, V>(p, at);
    case Point::l2: return combine<Point::l2, A, V>(p, at);
    case Point::products: return combine<Point::products, A, V>(p, at);
    case Point::sharpen: return combine<Point::sharpen, A, V>(p, at);
    case Point::polar: return combine<Point::polar, A, V>(p, at);
    case Point::thin: return combine<Point::thin, A, V>(p, at);
  }
}

}  // namespace torch_conv::fused
