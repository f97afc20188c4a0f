// Products as the PTX ISA's "Matrix Fragments for mma.m16n8k16 with floating point type" has them: what row and column
// every register of a lane is. Written without a look at the kernels' own maps. Hardware does not say in which order it
// sums. Here a tree over k sums the products, which are then added to the sum: bits show which products an mma has, and
// where. Results of 16 bits hide most of a sum's bits, unless sums are coarse.
#pragma once

#include "core/cuda/device.cuh"

namespace torch_conv {

inline bool coarse_sums = false;  // with 11 bits

inline float added(float a, float b) {
  const float sum = a + b;
  if (!coarse_sums || !std::isfinite(sum)) return sum;
  unsigned bits;
  memcpy(&bits, &sum, 4);
  bits = (bits + 0x1000) & ~0x1fff;
  float rounded;
  memcpy(&rounded, &bits, 4);
  return rounded;
}

// As numbers: on many a host a function converts halves.
struct Fragments {
  float a[32][4][2], b[32][2][2];
};
inline Fragments fragments[32];  // of the warps of a block

template <typename T>
void widen_two(unsigned word, float (&to)[2]) {
  T two[2];
  memcpy(two, &word, 4);
  for (int i = 0; i < 2; ++i) to[i] = to_acc<float>(two[i]);
}

// sum += a * b
template <typename T>
void mma_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  Fragments& all = fragments[threadIdx.x / 32];
  const int lane = threadIdx.x % 32;
  for (int r = 0; r < 4; ++r) widen_two<T>(a[r], all.a[lane][r]);
  widen_two<T>(b0, all.b[lane][0]), widen_two<T>(b1, all.b[lane][1]);
  __syncwarp();
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + (i < 2 ? 0 : 8), column = lane % 4 * 2 + i % 2;
    float products[16];  // each is exact
    for (int k = 0; k < 16; ++k) {
      const int a_register = (row >= 8 ? 1 : 0) + (k >= 8 ? 2 : 0);
      const float left = all.a[row % 8 * 4 + k % 8 / 2][a_register][k % 2];
      const float right = all.b[column * 4 + k % 8 / 2][k >= 8 ? 1 : 0][k % 2];
      products[k] = left * right;
    }
    for (int count = 8; count > 0; count /= 2)
      for (int k = 0; k < count; ++k) products[k] = added(products[2 * k], products[2 * k + 1]);
    sum[i] = added(sum[i], products[0]);
  }
  __syncwarp();
}

template <typename T>
void mma_into(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, float c0, float c1, float c2,
             float c3) {
  sum[0] = c0, sum[1] = c1, sum[2] = c2, sum[3] = c3;
  mma_add<T>(sum, a, b0, b1);
}

template <typename T>
void mma_add(float (&sum)[4], unsigned a0, unsigned a1, unsigned b) {
  const unsigned a[4] = {a0, a1, 0, 0};
  mma_add<T>(sum, a, b, 0);
}

}  // namespace torch_conv
