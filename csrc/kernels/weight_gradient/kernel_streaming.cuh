// STREAMING: a thread keeps all sums of a window and streams down a strip of columns.
//
//   image      row r     x x x x x x x x x x     columns + taps - 1 pixels
//   gradient   row r+p           g g g g         the last taps_y rows of it stay in registers, as a ring
//                    r+p-1       g g g g
//                    ...         g g g g         sums[i][j] += x[column + j] * g[row r+p-i][column]
//
// A row of the image is read once for all rows of taps, a row of the gradient once. An item is a strip of columns over
// a band of rows of one image; the threads of a channel share its items, over all images. Where channels lie innermost
// a warp's lanes are 32 channels, else all threads of a block have one channel. Windows of more taps than registers
// hold are cut into rows of taps, a grid's z.
//
// Device memory per output: 1 + 1 / step^2 reads; 2 k^2 flops. 7x7: 196 multiply-adds for 14 loads a thread (4 where
// rows are aligned). Each sum is made in an order that only shapes and the GPU decide. Pixels outside are zeros that
// multiply: where a sum is not finite it is made again of what lies inside alone, or Inf * 0 would reach taps that
// never saw it.
#pragma once

#include "core/cuda/device.cuh"
#include "kernels/weight_gradient/params.h"

namespace torch_conv::weight_gradient {

// A bit for each of `count` units.
template <int count>
using Bits = std::conditional_t<(count > 32), uint64_t, uint32_t>;

// `count` units of a row that lie side by side, `stride` elements apart from pixel to pixel. What lies outside is 0.
template <typename T, int unit, int count, bool kInner>
struct Row {
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

// Which of `count` units from pixel `first` on lie in a row of `size`.
template <int count, int unit>
__device__ __forceinline__ Bits<count> units_inside(int first, int size) {
  Bits<count> inside = 0;
#pragma unroll
  for (int i = 0; i < count; ++i) inside |= Bits<count>(unsigned(first + i * unit) < unsigned(size)) << i;
  return inside;
}

// A strip of columns from `x` on over the steps [begin, end) of image n.
struct Item {
  unsigned n;
  int x, begin, end;

  __device__ __forceinline__ static Item of(const SumsArgs& a, unsigned item, int columns, const Streamed& streaming) {
    const unsigned row_of_strips = a.strips.divide(item), n = a.bands.divide(row_of_strips);
    const int begin = streaming.first + int(row_of_strips - n * a.bands.divisor) * a.band;
    return {n, int(item - row_of_strips * a.strips.divisor) * columns, begin, min(begin + a.band, streaming.end)};
  }
};

// The sum of one tap over a thread's items, of what lies inside. Slow; for sums that are not finite.
template <typename T, int J, int kStepY, int kStepX, int V>
__device__ __noinline__ float sum_inside(const SumsArgs& a, const Streamed& streaming, int shift, int c, int tap,
                                         unsigned first, unsigned step) {
  const int i = tap / J, j = tap % J;
  const T* const in = static_cast<const T*>(a.in) + a.multiplier.divide(c) * a.in_c;
  const T* const grad = static_cast<const T*>(a.grad) + c * a.grad_c;
  float sum = 0;
  for (unsigned at = first; at < a.items; at += step) {
    const Item item = Item::of(a, at, V, streaming);
    for (int q = item.begin; q < item.end; ++q) {
      const int row = q * kStepY + i % kStepY - shift, y = q - i / kStepY;
      if (unsigned(row) >= unsigned(a.in_rows) || unsigned(y) >= unsigned(a.grad_rows)) continue;
      for (int x = item.x; x < item.x + V && x < a.grad_columns; ++x) {
        const int column = x * kStepX + j - a.pad_x;
        if (unsigned(column) < unsigned(a.in_columns))
          sum = fmaf(to_acc<float>(in[item.n * a.in_n + row * a.in_h + column * a.in_w]),
                     to_acc<float>(grad[item.n * a.grad_n + y * a.grad_h + x * a.grad_w]), sum);
      }
    }
  }
  return sum;
}

template <typename T, int I, int J, int kStepY, int kStepX, int V, int U, int kLead, bool kInner, int kAtOnce>
__global__ void __launch_bounds__(kThreads, kAtOnce) weight_gradient_streaming(const __grid_constant__ SumsArgs a) {
  constexpr Shape shape{I, J, kStepY, kStepX, V, U, kLead};
  constexpr int kKept = shape.kept(), kSpan = shape.span(), kTaps = I * J, kWarps = kThreads / 32;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int c = kInner ? blockIdx.y * 32 + lane : blockIdx.y;
  const int above = blockIdx.z * I, shift = a.pad_y - above;
  Streamed streaming = Streamed::of(shift, kStepY, a.in_rows, a.grad_rows, kKept);
  if (above == 0) streaming = streaming.with_all_rows(kKept);

  float sums[kTaps + 1] = {};  // the last of the gradient alone
  const unsigned at_once = kInner ? kWarps : kThreads;
  const unsigned first = c < a.channels ? blockIdx.x * at_once + (kInner ? warp : threadIdx.x) : a.items;
  for (unsigned at = first; at < a.items; at += gridDim.x * at_once) {
    const auto [n, x, begin, end] = Item::of(a, at, V, streaming);
    const int left = x * kStepX - a.pad_x - kLead;
    if (begin >= end) continue;
    const auto in_inside = units_inside<kSpan / U, U>(left, a.in_columns);
    const auto grad_inside = units_inside<V / U, U>(x, a.grad_columns);
    const unsigned in_at = n * a.in_n + a.multiplier.divide(c) * a.in_c + unsigned(left) * (kInner ? a.in_w : 1);
    const unsigned grad_at = n * a.grad_n + c * a.grad_c + unsigned(x) * (kInner ? a.grad_w : 1);

    Row<T, U, kSpan / U, kInner> next_in;
    Row<T, U, V / U, kInner> next_grad;
    const auto load_in = [&](int row) {
      next_in.load(static_cast<const T*>(a.in), in_at + unsigned(row) * a.in_h, a.in_w,
                   unsigned(row) < unsigned(a.in_rows) ? in_inside : Bits<kSpan / U>(0));
    };
    const auto load_grad = [&](int row) {
      next_grad.load(static_cast<const T*>(a.grad), grad_at + unsigned(row) * a.grad_h, a.grad_w,
                     unsigned(row) < unsigned(a.grad_rows) ? grad_inside : Bits<V / U>(0));
    };
    float grad[kKept][V];
    const auto take_grad = [&](float(&to)[V], bool counts) {
      next_grad.read(to);
#pragma unroll
      for (int v = 0; v < V; ++v) sums[kTaps] += counts ? to[v] : 0.f;
    };
#pragma unroll
    for (int back = kKept - 1; back > 0; --back) {
      load_grad(begin - back);
      take_grad(grad[kKept - back], begin == streaming.first);
    }
    load_in(begin * kStepY - shift);
    load_grad(begin);
    int q = begin;
    while (q < end) {
#pragma unroll
      for (int turn = 0; turn < kKept; ++turn) {
        if (q >= end) break;
#pragma unroll
        for (int e = 0; e < kStepY; ++e) {
          float pixels[kSpan];
          next_in.read(pixels);
          load_in(q * kStepY + e + 1 - shift);
          if (e == 0) {
            take_grad(grad[turn], true);
            load_grad(q + 1);
          }
#pragma unroll
          for (int i = e; i < I; i += kStepY)
#pragma unroll
            for (int j = 0; j < J; ++j)
#pragma unroll
              for (int v = 0; v < V; ++v)
                sums[i * J + j] =
                    fmaf(pixels[kLead + v * kStepX + j], grad[(turn - i / kStepY + kKept) % kKept][v], sums[i * J + j]);
        }
        ++q;
      }
    }
  }

  float zero = 0;
#pragma unroll
  for (int i = 0; i < kTaps; ++i) zero = fmaf(sums[i], 0.f, zero);
  if (zero != 0) {  // NaN
    for (int tap = 0; tap < kTaps; ++tap) {
      const float sum = sum_inside<T, J, kStepY, kStepX, V>(a, streaming, shift, c, tap, first, gridDim.x * at_once);
#pragma unroll
      for (int i = 0; i < kTaps; ++i) sums[i] = i == tap ? sum : sums[i];
    }
  }

  // The block's sums: of the lanes, where they have one channel; of the warps.
  constexpr int kEach = kTaps + 1;
  __shared__ float shared[kInner ? kEach * 32 : kEach * kWarps];
  if constexpr (kInner) {
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
  const int whole = a.taps_y * J + 1;
  for (int i = threadIdx.x; i < (kInner ? 32 : 1) * kEach; i += kThreads) {
    const int channel = kInner ? blockIdx.y * 32 + i / kEach : c, tap = i % kEach;
    float sum = kInner ? shared[tap * 32 + i / kEach] : 0;
    if constexpr (!kInner)
      for (int w = 0; w < kWarps; ++w) sum += shared[tap * kWarps + w];
    const bool bias = tap == kTaps;
    if (channel < a.channels && (bias ? above == 0 : above + tap / J < a.taps_y))
      a.sums[(int64_t(blockIdx.x) * a.channels + channel) * whole + (bias ? whole - 1 : above * J + tap)] = sum;
  }
}

}  // namespace torch_conv::weight_gradient
