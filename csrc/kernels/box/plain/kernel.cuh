// Box sums of integers without running sums: every row starts afresh.
//
//     columns  |....:....:....:....|     kh rows are summed into one block-wide segment of columns at a time;
//     outputs  |xxxx|                    every output adds its kw columns, left to right
//
// kh * (1 + kw / threads) loads and kw additions an output, whatever the size of the window.
#pragma once

#include "kernels/box/shared/integers.cuh"

namespace torch_conv::box {

// Outputs [x_begin, x_end) of row y of one plane. Called by whole blocks; `columns` holds a sum per thread.
template <typename T, typename Sum>
__device__ void plain_row(const IntegerArgs& a, const T* in, int64_t out, int y, int x_begin, int x_end, Sum* columns) {
  const int threads = blockDim.x, lane = threadIdx.x;
  for (int block = x_begin; block < x_end; block += threads) {
    const int x = block + lane, columns_end = min(block + threads, x_end) + a.kw - 1;
    Sum sum = 0;
    for (int segment = block; segment < columns_end; segment += threads) {
      // window column j is image column j - pad_x
      const int column = segment + lane < columns_end ? map_index(segment + lane - a.pad_x, a.in_w, a.border) : -1;
      Sum column_sum = 0;
      if (column >= 0) {
        const T* first = in + column * a.in_stride_w;
#pragma unroll 4
        for (int i = 0; i < a.kh; ++i) {
          const int row = map_index(y - a.pad_y + i, a.in_h, a.border);
          if (row >= 0) column_sum += to_sum<Sum>(first[row * a.in_stride_h]);
        }
      }
      columns[lane] = column_sum;
      __syncthreads();
      const int end = min(x + a.kw, segment + threads);
#pragma unroll 4
      for (int j = max(x, segment); j < end; ++j) sum += columns[j - segment];
      __syncthreads();
    }
    if (x < x_end)
      store<General>(a, out + y * a.out_stride_h + x * a.out_stride_w, finished<General>(a, to_real<T>(sum), y, x));
  }
}

template <typename T, typename Sum>
__global__ void __launch_bounds__(512) box_plain(const __grid_constant__ IntegerArgs a) {
  extern __shared__ __align__(16) unsigned char shared[];
  for (int64_t work = blockIdx.x; work < a.work; work += gridDim.x) {
    const int tile = int(work % a.tiles), y = int(work / a.tiles % a.out_h);
    const int64_t plane = work / a.tiles / a.out_h;
    const int x = tile * a.tile_w;
    plain_row<T, Sum>(a, in_plane<T>(a, plane), out_plane(a, plane), y, x, min(x + a.tile_w, a.out_w),
                      reinterpret_cast<Sum*>(shared));
  }
}

}  // namespace torch_conv::box
