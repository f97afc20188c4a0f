// The magnitude of a gradient from three planes in shared memory: a thread owns R x 2 voxels.
//
//      plane before     plane here      plane after
//      . . .            . u .           . . .          a difference: two of l, r; two of u, d (the column's other
//      . b .            l . r           . a .          voxels or its neighbours'); two of b, a
//      . . .            . d .           . . .          anything else: all 27, row chains, column chains, depth chains
//
// A tap of 0 times an infinite voxel or NaN is NaN: so the short form is for planes
// of finite voxels only. For finite voxels the two forms differ by no more than a zero's sign, which
// squares drop.
//
// Multiply-adds an output: 6 + 3 the short way. The other way shares the row sums of windows with the same taps along x
// and makes those of all three planes anew: 3 * (2 * 3 * (R + 2) / R + 3 * 3) + 3 * 3 + 3 = 66 for R = 4.
#pragma once

#include "kernels/fused3d/streaming/common.cuh"

namespace torch_conv::fused3d {

// The positions of the neighbours of a thread's R x 2 voxels. Rows and columns just outside the volume repeat some
// inside.
template <int R>
struct NeighbourOffsets {
  const float* planes[3];  // row 0, first column, in the planes before, here and after
  int left, right;         // the columns read left and right of the two, relative to the first
  bool repeats_rows;       // some row of -1 .. R is just outside the volume
  bool top;                // row -1 is: it repeats row 0, or row 1 with `reflects_top`
  int bottom;              // row `bottom` is: it repeats the one before, or the one before that with `reflects_bottom`
  bool reflects_top, reflects_bottom;
  bool odd;             // of the whole launch: the second column may be just outside
  bool repeats_second;  // it is: it repeats the first, or the one left of that with `reflects_right`
  bool reflects_right;

  // v[i] belongs to row i - 1.
  __device__ __forceinline__ void mend(float (&v)[R + 2]) const {
    if (top) v[0] = reflects_top ? v[2] : v[1];
#pragma unroll
    for (int r = 1; r <= R; ++r)
      if (r == bottom) v[r + 1] = reflects_bottom ? v[r - 1] : v[r];
  }
  __device__ __forceinline__ float second(float2 pair, float before) const {
    return odd && repeats_second ? (reflects_right ? before : pair.x) : pair.y;
  }
};

// The sums of three windows as s2^2 + (s1^2 + s0^2), of row o, column c in [2 * o + c]: core/point.h takes its root.
template <int Pitch, int R>
__device__ __forceinline__ void difference(const NeighbourOffsets<R>& at, const float (&tap)[3][3][3],
                                           float (&squares)[2 * R]) {
  const float* here = at.planes[1];
  auto pair = [](const float* from) { return *reinterpret_cast<const float2*>(from); };
  float first[R + 2], second[R + 2];
#pragma unroll
  for (int i = 0; i < R + 2; ++i) {
    const float2 v = pair(here + (i - 1) * Pitch);
    first[i] = v.x, second[i] = v.y;
  }
  float left[R];
#pragma unroll
  for (int o = 0; o < R; ++o) left[o] = here[o * Pitch + at.left];
  if (at.odd)
#pragma unroll
    for (int o = 0; o < R; ++o) second[o + 1] = at.second({first[o + 1], second[o + 1]}, left[o]);
#pragma unroll
  for (int o = 0; o < R; ++o) {
    const float s = fmaf(tap[0][0][2], second[o + 1], tap[0][0][0] * left[o]);
    const float t = fmaf(tap[0][0][2], here[o * Pitch + at.right], tap[0][0][0] * first[o + 1]);
    squares[2 * o] = s * s, squares[2 * o + 1] = t * t;
  }
  if (at.repeats_rows) at.mend(first), at.mend(second);
#pragma unroll
  for (int o = 0; o < R; ++o) {
    const float s = fmaf(tap[1][1][2], first[o + 2], tap[1][1][0] * first[o]);
    const float t = fmaf(tap[1][1][2], second[o + 2], tap[1][1][0] * second[o]);
    const float2 before = pair(at.planes[0] + o * Pitch), after = pair(at.planes[2] + o * Pitch);
    const float u = fmaf(tap[2][2][2], after.x, tap[2][2][0] * before.x);
    const float v = fmaf(tap[2][2][2], after.y, tap[2][2][0] * before.y);
    squares[2 * o] = fmaf(u, u, fmaf(s, s, squares[2 * o]));
    squares[2 * o + 1] = fmaf(v, v, fmaf(t, t, squares[2 * o + 1]));
  }
}

template <int Pitch, int R>
__device__ __forceinline__ void all_taps(const NeighbourOffsets<R>& at, const float (&tap)[3][3][3],
                                         float (&squares)[2 * R]) {
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    float sum[3][R] = {};
#pragma unroll 1
    for (int l = 0; l < 3; ++l) {
      const float* plane = l == 0 ? at.planes[0] : l == 1 ? at.planes[1] : at.planes[2];
      float rows[2][R + 2];  // row sums of window 0, and of windows 1 and 2
#pragma unroll
      for (int i = 0; i < R + 2; ++i) {
        const float* v = plane + (i - 1) * Pitch;
        const float2 pair = *reinterpret_cast<const float2*>(v);
        const float outer = v[c == 0 ? at.left : at.right];
        const float before = c == 0 ? outer : pair.x, here = c == 0 ? pair.x : pair.y;
        const float after = c == 0 ? at.second(pair, outer) : outer;
#pragma unroll
        for (int w = 0; w < 2; ++w)
          rows[w][i] = fmaf(tap[w][0][2], after, fmaf(tap[w][0][1], here, fmaf(tap[w][0][0], before, 0.f)));
      }
      if (at.repeats_rows) at.mend(rows[0]), at.mend(rows[1]);
#pragma unroll
      for (int w = 0; w < 3; ++w)
#pragma unroll
        for (int o = 0; o < R; ++o) {
          const float* v = rows[w == 0 ? 0 : 1] + o;
          const float plane_sum = fmaf(tap[w][1][2], v[2], fmaf(tap[w][1][1], v[1], fmaf(tap[w][1][0], v[0], 0.f)));
          sum[w][o] = fmaf(tap[w][2][l], plane_sum, sum[w][o]);
        }
    }
#pragma unroll
    for (int o = 0; o < R; ++o)
      squares[2 * o + c] = fmaf(sum[2][o], sum[2][o], fmaf(sum[1][o], sum[1][o], sum[0][o] * sum[0][o]));
  }
}

}  // namespace torch_conv::fused3d
