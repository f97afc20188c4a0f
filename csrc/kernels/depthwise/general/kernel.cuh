// GENERAL: any window, stride, dilation, dtype and layout.
//
//     input row   . . x x x x x x . .      A thread computes four neighbouring pixels of a row, one tap at a time.
//     outputs         0   1   2   3        Lanes follow the innermost axis in memory: x or the channels.
//
// Loads per multiply-add: 5/4, from L1 where windows overlap; 2 kh kw flops a pixel.
#pragma once

#include "core/activation.h"
#include "kernels/depthwise/general/params.h"

namespace torch_conv::depthwise {

template <typename T, typename W>
__global__ void __launch_bounds__(256) depthwise_general(const __grid_constant__ DepthwiseGeneralArgs a) {
  using A = acc_t<T>;
  const Depthwise& p = a.p;
  const Placement& s = p.place;
  int64_t index = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= a.threads) return;
  int64_t c, x, y;
  if (a.channels_inner) {
    c = index % p.out.c, index /= p.out.c;
    x = index % a.groups_of_four * 4, index /= a.groups_of_four;
    y = index % p.out.h, index /= p.out.h;
  } else {
    x = index % a.groups_of_four * 4, index /= a.groups_of_four;
    y = index % p.out.h, index /= p.out.h;
    c = index % p.out.c, index /= p.out.c;
  }
  const int64_t n = index;
  const W* weight = static_cast<const W*>(p.weight) + c * p.kh * p.kw;
  const T* plane = static_cast<const T*>(p.in.data) + n * p.in.stride_n + c / p.multiplier() * p.in.stride_c;

  A sum[4] = {};
  for (int64_t i = 0; i < p.kh; ++i) {
    const int64_t row = y * s.stride_y + i * s.dilation_y - s.pad_y;
    const bool row_inside = row >= 0 && row < p.in.h;
    for (int64_t j = 0; j < p.kw; ++j) {
      const A tap = to_acc<A>(weight[i * p.kw + j]);
      const int64_t first = x * s.stride_x + j * s.dilation_x - s.pad_x;
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const int64_t column = first + q * s.stride_x;
        const bool inside = row_inside && column >= 0 && column < p.in.w;
        sum[q] = fma(tap, inside ? to_acc<A>(plane[row * p.in.stride_h + column * p.in.stride_w]) : A(0), sum[q]);
      }
    }
  }

  const A bias = p.bias ? to_acc<A>(static_cast<const W*>(p.bias)[c]) : A(0);
  T* to = static_cast<T*>(p.out.data) + n * p.out.stride_n + c * p.out.stride_c + y * p.out.stride_h;
  // The activation is a parameter, so that one kernel, which is built ahead, serves every problem.
  with_activation(p.activation, [&](auto kind) {
    for (int q = 0; q < 4 && x + q < p.out.w; ++q)
      to[(x + q) * p.out.stride_w] = from_acc<T>(activated<kind.value>(sum[q] + bias));
  });
}

}  // namespace torch_conv::depthwise
