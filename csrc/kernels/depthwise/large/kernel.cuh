// LARGE: large windows by multiply-adds.
//
// clang-format off
//      rows of 8 slabs (images x strips of rows)         a warp: 4 neighbouring lanes on each of the 8
//                                                        (2 on 16 slabs, 1 on 32, where maps are narrow)
//     +-------------------------------------------+      +--------+--------+--------+--------+
//     | pad | row u of the image            | pad |      | lane 0 | lane 1 | lane 2 | lane 3 |   4 rows of
//     +-------------------------------------------+      |        |        |        |        |   8 columns each
//           v 8 + kw - 1 pixels of a lane                +--------+--------+--------+--------+
// clang-format on
//
// A step loads one input row into registers and adds it to the 4 rows of sums: to row j with window row u - j. All
// lanes read the same vectors of 4 taps. Steps outside the image are left out, and so are, with 8 images, all rows of
// zeros: 31x31 on 32x32 takes 76 % of the taps.
//
// Per window row and 8 outputs at 31x31: 248 multiply-adds, 8 loads of taps and 2.5 of pixels, 16 bytes each. Device
// memory per pixel: 1 read, 1 write; 2 kh kw flops. Shared memory: 65 KB (32x32, 8 images) of float32, with halo
// columns.
#pragma once

#include "core/activation.h"
#include "core/cuda/device.cuh"
#include "kernels/depthwise/large/params.h"
#include "kernels/depthwise/shared/floor_div.h"

namespace torch_conv::depthwise {

namespace large {

// Loads the rows of one image of the tile in the accumulation type, with zeros left and right of the image.
template <typename T>
__device__ __forceinline__ void load_rows(const LargeArgs& a, float* to, const T* plane, int first_row, int rows,
                                          int first_column, int gap_from) {
  const Image& in = a.p.in;
  for (int row = threadIdx.x / 32; row < rows; row += a.s.warps) {
    const T* from = plane + int64_t(first_row + row) * in.stride_h;
    int at = row * a.s.pitch;
    if (a.s.gap) at += (floor_div(gap_from + row, a.s.strip_rows) - floor_div(gap_from, a.s.strip_rows)) * a.s.gap;
#pragma unroll 4
    for (int x = threadIdx.x % 32; x < a.s.slab_columns; x += 32) {
      const int column = first_column + x;
      to[at / 4 + x] = column >= 0 && column < in.w ? to_acc<float>(from[column]) : 0.f;
    }
  }
}

// Stores the sums of a thread: 4 rows of 8 columns, from column x0 and row y of the block's tile on.
template <Activation kind, typename T>
__device__ __forceinline__ void store_sums(const LargeArgs& a, const float (&sum)[kLargeRows][kLargeColumns], int n,
                                           int channel, int y_tile, int x_tile, int y, int x0, int rows) {
  constexpr int RY = kLargeRows, PX = kLargeColumns;
  const Depthwise& p = a.p;
  const LargeShape& s = a.s;
  const float bias = p.bias ? to_acc<float>(static_cast<const T*>(p.bias)[channel]) : 0.f;
  const int inside = min(int(p.out.w), x_tile + s.tile_w) - x_tile - x0;
  const int rows_out = min(s.tile_h, int(p.out.h) - y_tile);
  T* to = static_cast<T*>(p.out.data) + n * p.out.stride_n + channel * p.out.stride_c +
          int64_t(y_tile + y) * p.out.stride_h + x_tile + x0;
#pragma unroll
  for (int j = 0; j < RY; ++j) {
    const bool exists = n < p.out.n && j < rows && y + j < rows_out;
#pragma unroll
    for (int x = 0; x < PX; x += 4) {
      Pack<4, T> four;
#pragma unroll
      for (int e = 0; e < 4; ++e) four.v[e] = from_acc<T>(activated<kind>(sum[j][x + e] + bias));
      if (a.store_vectors) {
        store_pack_if<4>(exists && x + 4 <= inside, to + x, four);
      }
      if (exists && (!a.store_vectors || x + 4 > inside)) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (x + e < inside) to[x + e] = four.v[e];
      }
    }
    to += p.out.stride_h;
  }
}

}  // namespace large

template <typename T, Activation kind, int KW, int kSide>
__global__ void __launch_bounds__(256, 2) depthwise_large(const __grid_constant__ LargeArgs a) {
  using namespace large;
  constexpr int RY = kLargeRows, PX = kLargeColumns, kTaps = (KW + 3) / 4 * 4, kPixels = (KW + PX - 1 + 3) / 4 * 4;
  extern __shared__ __align__(128) unsigned char large_rows[];
  const Depthwise& p = a.p;
  const LargeShape& s = a.s;
  const int kh = int(p.kh), pad = int(p.place.pad_y);

  // The block's tile. Its index counts, innermost first: columns, rows, channels, images.
  unsigned index = blockIdx.x;
  const int x_tile = int(index % s.tiles_x) * s.tile_w;
  index /= s.tiles_x;
  const int y_tile = int(index % s.tiles_y) * s.tile_h;
  index /= s.tiles_y;
  const int channel = int(index % unsigned(p.out.c)), first_image = int(index / unsigned(p.out.c)) * s.images;
  // Input rows of the tile, counted from its first output row.
  const int row_begin = max(-pad, -y_tile);
  const int row_end = min(s.tile_h + kh - 1 - pad, int(p.in.h) - y_tile), rows_inside = row_end - row_begin;

  float* const taps = reinterpret_cast<float*>(large_rows + kLargeZeroRow);
  unsigned char* const slabs = large_rows + kLargeZeroRow + kh * kTaps * 4;
  for (int e = threadIdx.x; e < kLargeZeroRow / 4; e += blockDim.x) reinterpret_cast<float*>(large_rows)[e] = 0;
  const T* weight = static_cast<const T*>(p.weight) + int64_t(channel) * (kh * KW);
  bool taps_not_finite = false;  // then no row of zeros may be left out
  for (int e = threadIdx.x; e < kh * kTaps; e += blockDim.x) {
    const int i = e / kTaps, j = e % kTaps;
    const float tap = j < KW ? to_acc<float>(weight[i * KW + j]) : 0.f;
    taps_not_finite |= tap * 0.f != 0;
    taps[e] = tap;
  }
  for (int image = 0; image < s.images; ++image)
    load_rows(a, reinterpret_cast<float*>(slabs + image * s.image_stride),
              static_cast<const T*>(p.in.data) + min(first_image + image, int(p.in.n) - 1) * p.in.stride_n +
                  channel / a.multiplier * p.in.stride_c,
              y_tile + row_begin, rows_inside, x_tile - int(p.place.pad_x), row_begin);
  taps_not_finite = __syncthreads_or(taps_not_finite);

  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const int slab = lane / kSide, strip = slab % s.strips, image = slab / s.strips;
#pragma unroll 1
  for (int task = warp; task < s.row_groups * s.column_tiles; task += s.warps) {
    const int group = task / s.column_tiles, y0 = group * RY;
    const int x0 = (task - group * s.column_tiles) * (kSide * PX) + lane % kSide * PX;
    const int rows = min(RY, s.strip_rows - y0);
    // Step i reads row `row_at + i` of the slab; window row i - j goes to output row j.
    const int row_at = strip * s.strip_rows - row_begin + y0 - pad;
    const int begin = taps_not_finite ? 0 : max(0, row_begin - (s.strips - 1) * s.strip_rows - y0 + pad);
    const int end = taps_not_finite ? kh + RY - 1 : min(kh + RY - 1, row_end - y0 + pad);
    const int u = begin + y0 - pad, strips_before = floor_div(u, s.strip_rows);
    int until_gap = s.strip_rows * (strips_before + 1) - u;
    const unsigned char* pixels = slabs + image * s.image_stride + strip * s.strip_stride + x0 * 4 +
                                  (u - row_begin) * s.pitch +
                                  (strips_before - floor_div(row_begin, s.strip_rows)) * s.gap;

    float sum[RY][PX] = {};
#pragma unroll 1
    for (int i = begin; i < end; ++i) {
      const unsigned char* from = unsigned(row_at + i) < unsigned(rows_inside) ? pixels : large_rows;
      float v[kPixels];
#pragma unroll
      for (int x = 0; x < kPixels; x += 4) {
        const float4 four = *reinterpret_cast<const float4*>(from + 4 * x);
        v[x] = four.x, v[x + 1] = four.y, v[x + 2] = four.z, v[x + 3] = four.w;
      }
#pragma unroll
      for (int j = 0; j < RY; ++j) {
        if (i >= j && i < kh + j && j < rows) {
          const float* row = taps + (i - j) * kTaps;
#pragma unroll
          for (int k = 0; k < KW; k += 4) {
            const float4 four = *reinterpret_cast<const float4*>(row + k);
            const float tap[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int e = 0; e < 4 && k + e < KW; ++e)
#pragma unroll
              for (int x = 0; x < PX; ++x) sum[j][x] = fmaf(tap[e], v[x + k + e], sum[j][x]);
          }
        }
      }
      pixels += s.pitch;
      if (--until_gap == 0) until_gap = s.strip_rows, pixels += s.gap;
    }

    store_sums<kind, T>(a, sum, first_image + image, channel, y_tile, x_tile, strip * s.strip_rows + y0, x0, rows);
  }
}

}  // namespace torch_conv::depthwise
