// FINISH: adds the blocks' sums and rounds them to the gradients.
//
//   sums   block 0   t t t ... t b | t t t ...     a lane adds one number; warp w takes the blocks w, w + 8, ...
//          block 1   t t t ... t b | t t t ...
#pragma once

#include "core/cuda/device.cuh"
#include "kernels/weight_gradient/streaming/params.h"

namespace torch_conv::weight_gradient {

template <typename T>
__global__ void __launch_bounds__(32 * kPartials) weight_gradient_finish(const __grid_constant__ FinishArgs a) {
  __shared__ float shared[kPartials][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned at = blockIdx.x * 32 + lane;
  float sum = 0;
  if (at < a.count) {
#pragma unroll 8
    for (int block = warp; block < a.blocks; block += kPartials) sum += a.sums[int64_t(block) * a.count + at];
  }
  shared[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || at >= a.count) return;
#pragma unroll
  for (int w = 1; w < kPartials; ++w) sum += shared[w][lane];
  const unsigned c = a.each.divide(at), tap = at - c * a.each.divisor;
  if (int(tap) < a.taps) static_cast<T*>(a.weight)[c * a.taps + tap] = from_acc<T>(sum);
  else static_cast<T*>(a.bias)[c] = from_acc<T>(sum);
}

}  // namespace torch_conv::weight_gradient
