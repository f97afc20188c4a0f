// GENERAL: the bits of STREAMING, with window and strides at run time.
//
//     taps of the window    . . . . . . .        a block's part: 8 taps of one row, or the bias
//                           # # # # # # #
//                           . . . . . . .
//
// A thread has the same items as in STREAMING and adds each tap's products in the same order: items, rows of the
// gradient, columns. Blocks add their threads' sums in the same order too. A part reads image and gradient anew;
// threads keep the sums of one part only, so that no register depends on the window.
//
// Device memory per output: kh * ceil(kw / 8) + 1 reads of image and gradient; 2 kh kw flops. With stride 1 the
// products of 8 taps and 4 columns take 11 loads of pixels and 4 of the gradient.
#pragma once

#include "kernels/weight_gradient/general/params.h"
#include "kernels/weight_gradient/shared/item.cuh"

namespace torch_conv::weight_gradient {

// A part's sums of a thread.
template <typename T>
struct PartSums {
  const SumsArgs& a;
  const StreamingPolicy& s;
  const int lane, warp;
  const int c;                   // of the gradient
  const unsigned first, stride;  // items
  const T *in, *grad;
  int i, j, above, shift;  // row of taps of a round, its first tap; as in STREAMING
  StepRange steps;
  float sums[kTapsAtOnce];

  __device__ __forceinline__ PartSums(const GeneralArgs& args)
      : a(args.sums),
        s(args.policy),
        lane(threadIdx.x % 32),
        warp(threadIdx.x / 32),
        c(s.inner ? blockIdx.y * 32 + lane : blockIdx.y),
        first(c < a.channels ? (s.inner ? blockIdx.x * (kThreads / 32) + warp : blockIdx.x * kThreads + threadIdx.x)
                             : a.items),
        stride(gridDim.x * (s.inner ? kThreads / 32 : kThreads)),
        in(static_cast<const T*>(a.in) + a.multiplier.divide(c) * a.in_c),
        grad(static_cast<const T*>(a.grad) + c * a.grad_c) {}

  // Starts a part: taps of row `row` of the window from `tap` on.
  __device__ __forceinline__ void start(int row, int tap) {
    above = row / s.taps_y * s.taps_y, i = row - above, j = tap, shift = a.pad_y - above;
    steps = StepRange::of(shift, s.stride_y, a.in_rows, a.grad_rows, s.ring_rows());
    if (above == 0) steps = steps.with_all_rows(s.ring_rows());
  }

  // f(item) for every item with steps.
  template <typename F>
  __device__ __forceinline__ void each_item(const F& f) const {
    for (unsigned at = first; at < a.items; at += stride) {
      const Item item = Item::of(a, at, s.columns, steps);
      if (item.begin < item.end) f(item);
    }
  }

  __device__ __forceinline__ float gradient_at(const Item& item, int y, int x) const {
    const bool inside = unsigned(y) < unsigned(a.grad_rows) && unsigned(x) < unsigned(a.grad_columns);
    return inside ? to_acc<float>(grad[item.n * a.grad_n + y * a.grad_h + x * a.grad_w]) : 0.f;
  }

  // Stride 1, whole fours of columns: the pixels of four are in registers.
  __device__ __forceinline__ void add_fours() {
    each_item([&](const Item& item) {
#pragma unroll 1
      for (int q = item.begin; q < item.end; ++q) {
        const int row = q * s.stride_y + i % s.stride_y - shift, y = q - i / s.stride_y;
        const T* const from = in + (item.n * a.in_n + row * a.in_h);
        const bool inside = unsigned(row) < unsigned(a.in_rows);
#pragma unroll 1
        for (int x = item.x; x < item.x + s.columns; x += 4) {
          const int left = x + j - a.pad_x;
          float pixels[4 + kTapsAtOnce - 1];
#pragma unroll
          for (int p = 0; p < 4 + kTapsAtOnce - 1; ++p) {
            const bool here = inside && unsigned(left + p) < unsigned(a.in_columns);
            pixels[p] = here ? to_acc<float>(from[(left + p) * a.in_w]) : 0.f;
          }
#pragma unroll
          for (int v = 0; v < 4; ++v) {
            const float g = gradient_at(item, y, x + v);
#pragma unroll
            for (int t = 0; t < kTapsAtOnce; ++t) sums[t] = fmaf(pixels[v + t], g, sums[t]);
          }
        }
      }
    });
  }

  // Any stride. `only_inside`: without pixels outside the image, for sums that are not finite.
  __device__ __forceinline__ void add_any(bool only_inside) {
    each_item([&](const Item& item) {
#pragma unroll 1
      for (int q = item.begin; q < item.end; ++q) {
        const int row = q * s.stride_y + i % s.stride_y - shift, y = q - i / s.stride_y;
        const T* const from = in + (item.n * a.in_n + row * a.in_h);
        const bool inside = unsigned(row) < unsigned(a.in_rows);
        if (only_inside && (!inside || unsigned(y) >= unsigned(a.grad_rows))) continue;
#pragma unroll 1
        for (int x = item.x; x < item.x + s.columns; ++x) {
          const float g = gradient_at(item, y, x);
          if (only_inside && x >= a.grad_columns) break;
#pragma unroll
          for (int t = 0; t < kTapsAtOnce; ++t) {
            const int column = x * s.stride_x + j + t - a.pad_x;
            const bool here = inside && unsigned(column) < unsigned(a.in_columns);
            if (here || !only_inside) sums[t] = fmaf(here ? to_acc<float>(from[column * a.in_w]) : 0.f, g, sums[t]);
          }
        }
      }
    });
  }

  // Adds the products of all items; again, without pixels outside the image, if a sum is not finite.
  __device__ __forceinline__ void add_taps() {
#pragma unroll 1
    for (int again = 0; again < 2; ++again) {
#pragma unroll
      for (int t = 0; t < kTapsAtOnce; ++t) sums[t] = 0;
      if (!again && s.stride_x == 1 && s.columns % 4 == 0) add_fours();
      else add_any(again);
      float zero = 0;
#pragma unroll
      for (int t = 0; t < kTapsAtOnce; ++t) zero = fmaf(sums[t], 0.f, zero);
      if (zero == 0) return;
    }
  }

  // The gradient alone: the first item of an image also has the rows above its first step.
  __device__ __forceinline__ void add_bias() {
#pragma unroll
    for (int t = 0; t < kTapsAtOnce; ++t) sums[t] = 0;
    each_item([&](const Item& item) {
      const bool counts = item.begin == steps.first;
      for (int y = item.begin - (s.ring_rows() - 1); y < item.end; ++y)
        for (int x = item.x; x < item.x + s.columns; ++x)
          sums[0] += counts || y >= item.begin ? gradient_at(item, y, x) : 0.f;
    });
  }

  // Adds the sums of the block's warps, and of their lanes if the lanes have one channel. Stores the first `count` sums
  // from number `at` of the window on.
  __device__ __forceinline__ void store(int at, int count) {
    constexpr int kWarps = kThreads / 32;
    __shared__ float shared[kWarps][kTapsAtOnce][32];
#pragma unroll
    for (int t = 0; t < kTapsAtOnce; ++t) {
      if (!s.inner) {
#pragma unroll
        for (int far = 16; far; far /= 2) sums[t] += __shfl_xor_sync(~0u, sums[t], far);
      }
      shared[warp][t][lane] = sums[t];
    }
    __syncthreads();
    const int numbers = a.taps_y * s.taps_x + 1, lanes = s.inner ? 32 : 1;
    for (int e = threadIdx.x; e < kTapsAtOnce * lanes; e += kThreads) {
      const int t = e / lanes, channel = s.inner ? blockIdx.y * 32 + e % lanes : c;
      float sum = s.inner ? shared[0][t][e % lanes] : 0;
      for (int w = s.inner ? 1 : 0; w < kWarps; ++w) sum += shared[w][t][e % lanes];
      if (channel < a.channels && t < count)
        a.sums[(int64_t(blockIdx.x) * a.channels + channel) * numbers + at + t] = sum;
    }
    __syncthreads();  // the next part writes `shared`
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads) weight_gradient_general(const __grid_constant__ GeneralArgs a) {
  PartSums<T> part(a);
#pragma unroll 1
  for (int number = blockIdx.z; number < a.parts; number += gridDim.z) {
    const bool bias = number == a.parts - 1;
    const int row = bias ? 0 : number / a.groups, tap = bias ? 0 : (number - row * a.groups) * kTapsAtOnce;
    part.start(row, tap);
    if (bias) part.add_bias();
    else part.add_taps();
    const int taps = a.policy.taps_x, at = bias ? a.sums.taps_y * taps : row * taps + tap;
    part.store(at, bias ? 1 : min(taps - tap, kTapsAtOnce));
  }
}

}  // namespace torch_conv::weight_gradient
