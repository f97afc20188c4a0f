// Rung 5, fused (V3): 3x3 Gaussian and Sobel |Gx| + |Gy| in one launch. Every thread computes the blurred pixels it
// needs.
//
//      in, 5 x 5           g = Gaussian, 3 x 3         out, one pixel
//      . . . . .
//      . . . . .             g g g
//      . . . . .    --->     g g g      --->      |sum Sx g| + |sum Sy g|
//      . . . . .             g g g
//      . . . . .           each g: 9 reads of `in`, 81 in all, 25 of them different
//
// Border: the blurred image is 0 outside the image, as in two zero-padded calls. Blurring beyond the edge would change
// the outermost pixels of the result.
//
// Per output pixel:  loads       81 reads = 324 bytes; L1 serves all but 25
//                    DRAM        4 bytes read, 4 written; four launches (blur, Gx, Gy, |Gx| + |Gy|) take 36
//                    arithmetic  9 * 18 (Gaussian) + 2 * 18 (Sobel) = 198 flops; four launches take 54
//
// Against the rungs before: the intermediate image and its launches are gone. The price is work: nine threads compute
// each blurred pixel, and the load units serve 81 reads.
#pragma once

#include "kernels/ladder/params.h"

namespace torch_conv::ladder {

__global__ void ladder2d_fused(const Planes planes, const __grid_constant__ ConstantWindow<9> gaussian) {
  constexpr float kSobel[3] = {-1, 0, 1}, kSmooth[3] = {1, 2, 1};  // Sx = smooth(i) sobel(j), Sy the other way round
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;

  const auto blurred = [&](int cy, int cx) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 3; ++i)
#pragma unroll
      for (int j = 0; j < 3; ++j) sum = fmaf(gaussian.tap[i * 3 + j], planes.read(cy + i - 1, cx + j - 1), sum);
    return planes.inside(cy, cx) ? sum : 0.0f;
  };

  // Taps that are 0 multiply, too: NaN and Inf spread as in two calls.
  float gx = 0.0f, gy = 0.0f;
#pragma unroll
  for (int i = 0; i < 3; ++i)
#pragma unroll
    for (int j = 0; j < 3; ++j) {
      const float g = blurred(y + i - 1, x + j - 1);
      gx = fmaf(kSmooth[i] * kSobel[j], g, gx);
      gy = fmaf(kSobel[i] * kSmooth[j], g, gy);
    }
  planes.write(y, x, fabsf(gx) + fabsf(gy));
}

}  // namespace torch_conv::ladder
