// Box sums of floats in the kernel family's fixed order of additions (kernels/box/order.h), of any window, border,
// layout and dtype.
//
//              tile_w outputs + kw - 1 halo columns
//            +-------------------------------------+
//   S_j      |  first 8 rows: sums from row j on   |   8 outputs, aligned to 8 rows of the whole image, share M:
//   M        |  blocks of 8 rows, as they are      |   V_j = (S_j + M) + P_j
//   P_j      |  last 8 rows: sums up to row j      |
//            +-------------------------------------+
//   then a warp a row: s_2m[i] = s_m[i] + s_m[i + m], and the sums of kw columns by the bits of kw.
//
// Per output, with f = 1 + (kw - 1) / tile_w: (kh + 7) / 8 * f reads, about (kh / 8 + 4) * f additions down the
// columns, 2 log2(kw) along the rows. Windows too wide for the sums of a tile in shared memory go through segments of
// columns (box_groups_wide), in kw additions an output.
#pragma once

#include "core/cuda/store.cuh"
#include "kernels/box/groups/params.h"
#include "kernels/box/read_counts.h"

namespace torch_conv::box {

// One column of the extended image of a plane.
template <typename T, typename A>
struct GroupColumn {
  const T* first;  // null: outside
  int64_t stride;
  int height;
  Border border;
  A outside;

  __device__ GroupColumn(const GroupArgs& a, const T* plane, int x)
      : stride(a.in.stride_h), height(int(a.in.h)), border(a.border), outside(A(a.outside)) {
    const int column = map_index(x, int(a.in.w), a.border);
    first = column >= 0 ? plane + column * a.in.stride_w : nullptr;
  }
  __device__ __forceinline__ A operator[](int row) const {
    const int y = first ? map_index(row, height, border) : -1;
    return y >= 0 ? to_acc<A>(first[y * stride]) : outside;
  }
};

// The sum of a window of k pixels that is far longer than its axis of n (order.h: is_far), in float64: each pixel times
// the number of times that the window reads it. read(m) is pixel m, `nothing` the value outside.
template <typename A, typename Read>
__device__ A far_sum(int first, int k, int n, Border border, A nothing, const Read& read) {
  double sum = 0;
  int64_t outside = k;
  for (int m = 0; m < n; ++m) {
    const int64_t times = reads_of(m, first, k, n, border);
    outside -= times;
    if (times > 0) sum = fma(double(times), double(read(m)), sum);  // 0 * Inf
  }
  return A(nothing != 0 ? fma(double(outside), double(nothing), sum) : sum);
}

// V of one output whose window starts at row `first`, for windows far taller than the image.
template <typename T, typename A>
__device__ A far_column(const GroupColumn<T, A>& column, int first, int kh) {
  if (!column.first) return A(double(kh) * double(column.outside));
  return far_sum<A>(first, kh, column.height, column.border, column.outside, [&](int m) { return column[m]; });
}

// V of all 8 outputs of a group whose first window starts at row `top`.
template <typename T, typename A>
__device__ void column_sums(const GroupArgs& a, const GroupColumn<T, A>& column, int top, A (&sums)[kGroup]) {
  const int kh = a.kh;
  if (a.far_h) {
    for (int j = 0; j < kGroup; ++j) sums[j] = far_column(column, top + j, kh);
    return;
  }
  if (one_chain(kh)) {
    for (int j = 0; j < kGroup; ++j) {
      A sum = column[top + j];
      for (int i = 1; i < kh; ++i) sum = sum + column[top + j + i];
      sums[j] = sum;
    }
    return;
  }
  const int bottom = top + kh - 1;
  sums[kGroup - 1] = column[top + kGroup - 1];
#pragma unroll
  for (int j = kGroup - 2; j >= 0; --j) sums[j] = column[top + j] + sums[j + 1];
  if (kh > kGroup + 1) {
    const A middle = middle_sum<A>([&](int64_t i) { return column[top + int(i)]; }, kh);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) sums[j] = sums[j] + middle;
  }
  A last = column[bottom];
  sums[0] = sums[0] + last;
#pragma unroll
  for (int j = 1; j < kGroup; ++j) {
    last = last + column[bottom + j];
    sums[j] = sums[j] + last;
  }
}

template <typename A>
__device__ __forceinline__ A finish_sum(const GroupArgs& a, A sum, int y, int x) {
  if (a.finish != Finish::scale) {
    const int64_t rows = torch_conv::overlap(y - a.pad_y, a.kh, a.in.h),
                  columns = torch_conv::overlap(x - a.pad_x, a.kw, a.in.w), count = rows * columns;
    if (a.finish == Finish::mean_inside) return count > 0 ? sum / A(count) : A(0);
    if (rows < a.kh || columns < a.kw) return A(0);
  }
  return a.divides ? mean_of_sum(sum, Reciprocal<A>{A(a.area.hi), A(a.area.lo)}) : sum;
}

// The outputs of a block: columns from x on of the 8 rows from y on (some may be outside the result).
struct BlockOutputs {
  int x, y;
  int64_t in, out;  // elements from the images' starts to those of the plane

  __device__ BlockOutputs(const GroupArgs& a, int64_t work) {
    x = int(work % a.tiles) * a.tile_w;
    y = int(work / a.tiles % a.groups) * kGroup - a.phase;
    const int64_t plane = work / a.tiles / a.groups, n = plane / a.out.c, c = plane % a.out.c;
    in = n * a.in.stride_n + c * a.in.stride_c;
    out = n * a.out.stride_n + c * a.out.stride_c;
  }
};

template <typename A>
__device__ __forceinline__ void store_output(const GroupArgs& a, const BlockOutputs& g, int y, int x, A sum) {
  store_as(a.out, g.out + y * a.out.stride_h + x * a.out.stride_w, finish_sum(a, sum, y, x));
}

template <typename T, typename A>
__global__ void __launch_bounds__(kGroupThreads) box_groups(const __grid_constant__ GroupArgs a) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int columns = a.tile_w + a.kw - 1, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  A* const sums = reinterpret_cast<A*>(shared);  // [kGroup][columns]: s_m
  A* const s = sums + warp * columns;
  A* const t = s + kGroup * columns;  // [kGroup][columns]: the sums by the bits of kw so far
  for (int64_t work = blockIdx.x; work < a.work; work += gridDim.x) {
    const BlockOutputs g(a, work);
    const T* const plane = static_cast<const T*>(a.in.data) + g.in;
    for (int i = threadIdx.x; i < columns; i += kGroupThreads) {
      A v[kGroup];
      column_sums(a, GroupColumn<T, A>(a, plane, g.x - a.pad_x + i), g.y - a.pad_y, v);
#pragma unroll
      for (int j = 0; j < kGroup; ++j) sums[j * columns + i] = v[j];
    }
    __syncthreads();
    // In place: a pass goes up, and a warp reads elements before it overwrites them. Sums beyond the end of the tile
    // belong to no output.
    bool any = false;
    for (int m = 1; m <= a.kw; m *= 2) {
      const bool bit = a.kw & m;
      for (int first = 0; first < columns; first += 32) {
        const int i = first + lane;
        const bool here = i < columns, ahead = i + m < columns;
        const A own = here ? s[i] : A(0), next = ahead ? s[i + m] : A(0),
                before = bit && any && ahead ? t[i + m] : A(0);
        __syncwarp();
        if (here) s[i] = own + next;
        if (here && bit) t[i] = any ? own + before : own;
        __syncwarp();
      }
      any = any || bit;
    }
    const int y = g.y + warp;
    if (y >= 0 && y < a.out.h)
      for (int i = lane; i < a.tile_w && g.x + i < a.out.w; i += 32) store_output(a, g, y, g.x + i, t[i]);
    __syncthreads();
  }
}

// Row sums for any kw: each lane adds the kw columns of one output from left to right. A stack holds sums of 2^i
// neighbours, as a binary counter does. So the order of additions is that of order.h.
template <typename T, typename A>
__global__ void __launch_bounds__(kGroupThreads) box_groups_wide(const __grid_constant__ GroupArgs a) {
  extern __shared__ __align__(16) unsigned char shared[];
  A* const sums = reinterpret_cast<A*>(shared);  // [kGroup][kGroupThreads]
  const int columns = a.tile_w + a.kw - 1, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int64_t work = blockIdx.x; work < a.work; work += gridDim.x) {
    const BlockOutputs g(a, work);
    const T* const plane = static_cast<const T*>(a.in.data) + g.in;
    A stack[32];
    int depth = 0;
    for (int segment = 0; segment < columns; segment += kGroupThreads) {
      A v[kGroup];
      column_sums(a, GroupColumn<T, A>(a, plane, g.x - a.pad_x + segment + int(threadIdx.x)), g.y - a.pad_y, v);
      __syncthreads();
#pragma unroll
      for (int j = 0; j < kGroup; ++j) sums[j * kGroupThreads + threadIdx.x] = v[j];
      __syncthreads();
      const int end = min(a.kw, segment + kGroupThreads - lane);
      for (int i = max(0, segment - lane); i < end; ++i) {
        A sum = sums[warp * kGroupThreads + lane + i - segment];
        for (int left = i; left & 1; left >>= 1) sum = stack[--depth] + sum;
        stack[depth++] = sum;
      }
    }
    A sum = stack[--depth];
    while (depth > 0) sum = stack[--depth] + sum;
    const int y = g.y + warp, x = g.x + lane;
    if (y >= 0 && y < a.out.h && x < a.out.w) store_output(a, g, y, x, sum);
    __syncthreads();
  }
}

// Row sums of windows far wider than the image (order.h: is_far). A warp takes a row, a lane an output. Each lane makes
// the sums of all columns itself.
template <typename T, typename A>
__global__ void __launch_bounds__(kGroupThreads) box_groups_far(const __grid_constant__ GroupArgs a) {
  for (int64_t work = blockIdx.x; work < a.work; work += gridDim.x) {
    const BlockOutputs g(a, work);
    const T* const plane = static_cast<const T*>(a.in.data) + g.in;
    const int j = threadIdx.x / 32, y = g.y + j, x = g.x + int(threadIdx.x % 32);
    if (y < 0 || y >= a.out.h || x >= a.out.w) continue;
    const int top = g.y - a.pad_y;
    const auto sum = [&](int m) {
      const GroupColumn<T, A> column(a, plane, m);
      return a.far_h ? far_column(column, top + j, a.kh)
                     : column_sum<A>([&](int64_t i) { return column[top + int(i)]; }, a.kh, j);
    };
    // A column outside holds the constant only.
    const A value = A(a.outside);
    const A nothing = value == A(0) ? A(0)
                      : a.far_h     ? A(double(a.kh) * double(value))
                                    : column_sum<A>([&](int64_t) { return value; }, a.kh, j);
    store_output(a, g, y, x, far_sum<A>(x - a.pad_x, a.kw, int(a.in.w), a.border, nothing, sum));
  }
}

}  // namespace torch_conv::box
