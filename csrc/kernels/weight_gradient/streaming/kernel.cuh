// STREAMING: a thread keeps the sums of all taps and streams down a strip of columns.
//
//     image      row r     x x x x x x x x x x     columns + taps - 1 pixels
//     gradient   row r+p           g g g g         the last taps_y rows, a ring in registers
//                      r+p-1       g g g g
//                      ...         g g g g         sums[i][j] += x[column + j] * g[row r+p-i][column]
//
// A thread reads a row of the image once for all rows of taps, and a row of the gradient once. An item is a strip of
// columns over a band of rows of one image. The threads of a channel share the items of all images. If channels are
// innermost, a warp's lanes are 32 channels; else all threads of a block have one channel. Windows of more taps than
// registers hold are cut into groups of rows of taps, the grid's z.
//
// Device memory per output: 1 + 1 / stride^2 reads; 2 k^2 flops. 7x7: 196 multiply-adds for 14 loads a thread (4 where
// rows are aligned). Shapes and the GPU alone decide the order of each sum. Pixels outside the image are zeros. Inf * 0
// would change the sums of taps that are never over the pixel: a thread computes sums that are not finite again,
// without those pixels.
#pragma once

#include "core/cuda/device.cuh"
#include "kernels/weight_gradient/shared/item.cuh"

namespace torch_conv::weight_gradient {

// A bit for each of `count` units.
template <int count>
using Bits = std::conditional_t<(count > 32), uint64_t, uint32_t>;

// `count` neighbouring units of a row, `stride` elements apart from pixel to pixel. Units outside the row are 0.
template <typename T, int unit, int count, bool kInner>
struct RowUnits {
  Pack<unit, T> packs[count];

  __device__ __forceinline__ void load(const T* image, unsigned at, unsigned stride, Bits<count> inside) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      packs[i] = {};
      if (inside >> i & 1) packs[i] = load_pack<unit>(image + (at + i * unit * (kInner ? stride : 1)));
    }
  }
  __device__ __forceinline__ void read(float (&to)[count * unit]) const {
#pragma unroll
    for (int i = 0; i < count; ++i)
#pragma unroll
      for (int e = 0; e < unit; ++e) to[i * unit + e] = to_acc<float>(packs[i].v[e]);
  }
};

// Bit i is set if unit i from pixel `first` on is in a row of `size` pixels.
template <int count, int unit>
__device__ __forceinline__ Bits<count> units_inside(int first, int size) {
  Bits<count> inside = 0;
#pragma unroll
  for (int i = 0; i < count; ++i) inside |= Bits<count>(unsigned(first + i * unit) < unsigned(size)) << i;
  return inside;
}

// The sum of one tap over a thread's items, without pixels outside the image. Slow: for sums that are not finite.
template <typename T, StreamingPolicy P>
__device__ __noinline__ float sum_inside(const SumsArgs& a, const StepRange& steps, int shift, int c, int tap,
                                         unsigned first, unsigned stride) {
  const int i = tap / P.taps_x, j = tap % P.taps_x;
  const T* const in = static_cast<const T*>(a.in) + a.multiplier.divide(c) * a.in_c;
  const T* const grad = static_cast<const T*>(a.grad) + c * a.grad_c;
  float sum = 0;
  for (unsigned at = first; at < a.items; at += stride) {
    const Item item = Item::of(a, at, P.columns, steps);
    for (int q = item.begin; q < item.end; ++q) {
      const int row = q * P.stride_y + i % P.stride_y - shift, y = q - i / P.stride_y;
      if (unsigned(row) >= unsigned(a.in_rows) || unsigned(y) >= unsigned(a.grad_rows)) continue;
      for (int x = item.x; x < item.x + P.columns && x < a.grad_columns; ++x) {
        const int column = x * P.stride_x + j - a.pad_x;
        if (unsigned(column) < unsigned(a.in_columns))
          sum = fmaf(to_acc<float>(in[item.n * a.in_n + row * a.in_h + column * a.in_w]),
                     to_acc<float>(grad[item.n * a.grad_n + y * a.grad_h + x * a.grad_w]), sum);
      }
    }
  }
  return sum;
}

// A thread's sums of all taps, and of the gradient alone (the last).
template <typename T, StreamingPolicy P>
struct Streaming {
  static constexpr int V = P.columns, U = P.unit, kRingRows = P.ring_rows(), kSpan = P.span();
  static constexpr int kTaps = P.taps_y * P.taps_x, kEach = kTaps + 1, kWarps = kThreads / 32;
  static constexpr int kAtOnce = P.inner ? kWarps : kThreads;  // items of a block at once

  const SumsArgs& a;
  const int lane, warp;
  const int c;             // of the gradient
  const int above, shift;  // rows of taps above this block's; rows from step q to the first of its image rows
  StepRange steps;
  const unsigned first;  // item
  float sums[kEach];

  __device__ __forceinline__ Streaming(const SumsArgs& args)
      : a(args),
        lane(threadIdx.x % 32),
        warp(threadIdx.x / 32),
        c(P.inner ? blockIdx.y * 32 + lane : blockIdx.y),
        above(blockIdx.z * P.taps_y),
        shift(a.pad_y - above),
        steps(StepRange::of(shift, P.stride_y, a.in_rows, a.grad_rows, kRingRows)),
        first(c < a.channels ? blockIdx.x * kAtOnce + (P.inner ? warp : threadIdx.x) : a.items),
        sums{} {
    if (above == 0) steps = steps.with_all_rows(kRingRows);
  }

  // Adds a row of the image to the sums of every stride_y-th row of taps from row e on.
  __device__ __forceinline__ void add_row(int e, int turn, const float (&pixels)[kSpan],
                                          const float (&grad)[kRingRows][V]) {
#pragma unroll
    for (int i = e; i < P.taps_y; i += P.stride_y)
#pragma unroll
      for (int j = 0; j < P.taps_x; ++j)
#pragma unroll
        for (int v = 0; v < V; ++v)
          sums[i * P.taps_x + j] =
              fmaf(pixels[P.lead + v * P.stride_x + j], grad[(turn - i / P.stride_y + kRingRows) % kRingRows][v],
                   sums[i * P.taps_x + j]);
  }

  __device__ __forceinline__ void add_item(const Item& item) {
    const auto [n, x, begin, end] = item;
    const int left = x * P.stride_x - a.pad_x - P.lead;
    const auto in_inside = units_inside<kSpan / U, U>(left, a.in_columns);
    const auto grad_inside = units_inside<V / U, U>(x, a.grad_columns);
    const unsigned in_at = n * a.in_n + a.multiplier.divide(c) * a.in_c + unsigned(left) * (P.inner ? a.in_w : 1);
    const unsigned grad_at = n * a.grad_n + c * a.grad_c + unsigned(x) * (P.inner ? a.grad_w : 1);

    RowUnits<T, U, kSpan / U, P.inner> next_in;
    RowUnits<T, U, V / U, P.inner> next_grad;
    const auto load_in = [&](int row) {
      next_in.load(static_cast<const T*>(a.in), in_at + unsigned(row) * a.in_h, a.in_w,
                   unsigned(row) < unsigned(a.in_rows) ? in_inside : Bits<kSpan / U>(0));
    };
    const auto load_grad = [&](int row) {
      next_grad.load(static_cast<const T*>(a.grad), grad_at + unsigned(row) * a.grad_h, a.grad_w,
                     unsigned(row) < unsigned(a.grad_rows) ? grad_inside : Bits<V / U>(0));
    };
    float grad[kRingRows][V];
    const auto take_grad = [&](float(&to)[V], bool counts) {
      next_grad.read(to);
#pragma unroll
      for (int v = 0; v < V; ++v) sums[kTaps] += counts ? to[v] : 0.f;
    };
#pragma unroll
    for (int back = kRingRows - 1; back > 0; --back) {
      load_grad(begin - back);
      take_grad(grad[kRingRows - back], begin == steps.first);
    }
    load_in(begin * P.stride_y - shift);
    load_grad(begin);
    int q = begin;
    while (q < end) {
#pragma unroll
      for (int turn = 0; turn < kRingRows; ++turn) {
        if (q >= end) break;
#pragma unroll
        for (int e = 0; e < P.stride_y; ++e) {
          float pixels[kSpan];
          next_in.read(pixels);
          load_in(q * P.stride_y + e + 1 - shift);
          if (e == 0) {
            take_grad(grad[turn], true);
            load_grad(q + 1);
          }
          add_row(e, turn, pixels, grad);
        }
        ++q;
      }
    }
  }

  __device__ __forceinline__ void add_items() {
    for (unsigned at = first; at < a.items; at += gridDim.x * kAtOnce) {
      const Item item = Item::of(a, at, V, steps);
      if (item.begin < item.end) add_item(item);
    }
  }

  // Computes all sums again, without pixels outside the image, if one is not finite.
  __device__ __forceinline__ void repair() {
    float zero = 0;
#pragma unroll
    for (int i = 0; i < kTaps; ++i) zero = fmaf(sums[i], 0.f, zero);
    if (zero == 0) return;
    for (int tap = 0; tap < kTaps; ++tap) {
      const float sum = sum_inside<T, P>(a, steps, shift, c, tap, first, gridDim.x * kAtOnce);
#pragma unroll
      for (int i = 0; i < kTaps; ++i) sums[i] = i == tap ? sum : sums[i];
    }
  }

  // Adds the sums of the block's warps, and of their lanes if the lanes have one channel. Stores the block's sums.
  __device__ __forceinline__ void store() {
    __shared__ float shared[P.inner ? kEach * 32 : kEach * kWarps];
    if constexpr (P.inner) {
      for (int w = 0; w < kWarps; ++w) {
        if (warp == w) {
#pragma unroll
          for (int i = 0; i < kEach; ++i) shared[i * 32 + lane] = w ? shared[i * 32 + lane] + sums[i] : sums[i];
        }
        __syncthreads();
      }
    } else {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int far = 16; far; far /= 2) sums[i] += __shfl_xor_sync(~0u, sums[i], far);
        if (lane == 0) shared[i * kWarps + warp] = sums[i];
      }
      __syncthreads();
    }
    const int numbers = a.taps_y * P.taps_x + 1;
    for (int i = threadIdx.x; i < (P.inner ? 32 : 1) * kEach; i += kThreads) {
      const int channel = P.inner ? blockIdx.y * 32 + i / kEach : c, tap = i % kEach;
      float sum = P.inner ? shared[tap * 32 + i / kEach] : 0;
      if constexpr (!P.inner)
        for (int w = 0; w < kWarps; ++w) sum += shared[tap * kWarps + w];
      const bool bias = tap == kTaps;
      if (channel < a.channels && (bias ? above == 0 : above + tap / P.taps_x < a.taps_y))
        a.sums[(int64_t(blockIdx.x) * a.channels + channel) * numbers + (bias ? numbers - 1 : above * P.taps_x + tap)] =
            sum;
    }
  }
};

template <typename T, StreamingPolicy P>
__global__ void __launch_bounds__(kThreads, P.resident) weight_gradient_streaming(const __grid_constant__ SumsArgs a) {
  Streaming<T, P> thread(a);
  thread.add_items();
  thread.repair();
  thread.store();
}

}  // namespace torch_conv::weight_gradient
