// The sums of a thread that computes px columns of ry output rows.
#pragma once

namespace torch_conv::depthwise {

// Adds input row r, whose pixels are `v`, to all output rows over it. Calls finish(o) for output row o, whose sums are
// then complete.
template <auto S, int N, int M, typename Finish>
__device__ __forceinline__ void add_row(int r, const float (&v)[N], const float (&tap)[M], float (&sum)[S.ry][S.px],
                                        const Finish& finish) {
#pragma unroll
  for (int o = 0; o < S.ry; ++o) {
    const int down = r - o * S.stride_y, i = down / S.dilation_y;
    if (down < 0 || down % S.dilation_y != 0 || i >= S.kh) continue;
#pragma unroll
    for (int j = 0; j < S.kw; ++j)
#pragma unroll
      for (int p = 0; p < S.px; ++p)
        sum[o][p] = fmaf(tap[i * S.kw + j], v[p * S.stride_x + j * S.dilation_x], sum[o][p]);
    if (i == S.kh - 1) finish(o);
  }
}

}  // namespace torch_conv::depthwise
