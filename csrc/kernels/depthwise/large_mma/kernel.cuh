// LARGE_MMA: large windows as banded matrices on tensor cores (mma.sync m16n8k16, sums in float32).
//
// clang-format off
//        one input row of M = 16 rows                    one window row, as a band              outputs
//        k: 16 columns (a pair of blocks)                n: 8 output columns                    M x 8
//     +-----------------------------+                 +------------------+                   +---------+
//     | image 0, strip 0, row u     |               k | w[i-1] w[i-2] .. |                   | row j   |
//   M | image 0, strip 1, row u + S |       x         | w[i]   w[i-1] .. |        +=         | of the  |
//     | ...                         |                 | w[i+1] w[i]   .. |                   | strips  |
//     +-----------------------------+                 +------------------+                   +---------+
// clang-format on
//
// M counts images of a batch times strips of S rows of one image: 16 images, one image in 16 strips, or between.
// A warp computes `rows` output rows of every strip and `blocks` blocks of 8 columns. The warp adds input row u to
// output row j by window row u - j. So the registers of window rows rotate, and each input row loads one new window
// row.
//
// Shared memory holds the rows and columns of the images that the tile reads (32x32: 33 KB for 16 images). The tile has
// no halo: pairs of blocks and rows outside are left out. Pitches put 8 rows of M into different banks. Window rows
// have zeros on both sides. A second copy is shifted by one tap, so that every pair of taps is an aligned word.
//
// 31x31 on 32 columns: an input row takes 4 rows x (6 k16 + 2 k8) mma, 2 ldmatrix and 5 loads of taps.
// Device memory per pixel: 1 read, 1 write. 2 kh kw flops. The mma at 31x31 do 1.9 times as many: 7 blocks of 8 taps
// for 31 taps.
//
// Zeros of the band times Inf or NaN are NaN. A chain of multiply-adds computes sums that are not finite again.
#pragma once

#include "core/activation.h"
#include "core/cuda/async_copy.cuh"
#include "core/cuda/device.cuh"
#include "core/cuda/half_bits.cuh"
#include "core/cuda/mma.cuh"
#include "core/cuda/round_pair.cuh"
#include "core/cuda/tma.cuh"
#include "kernels/depthwise/large_mma/packed.cuh"
#include "kernels/depthwise/large_mma/params.h"
#include "kernels/depthwise/shared/divisor.h"

namespace torch_conv::depthwise {

namespace large_mma {

// The input of a block: rows [row, row_end), counted from the tile's first output row, and columns [column,
// column_end), which are whole pairs of blocks.
struct Slab {
  int row, row_end, column, column_end;
};

// Starts copies of the rows of all images of one channel to shared memory, in vectors of a.load_bytes.
template <typename T>
__device__ __forceinline__ void load_slab(const LargeMmaArgs& a, const Slab& slab, unsigned char* to, const T* plane,
                                          int first_image, int first_row) {
  const int bytes = a.load_bytes, columns = max(slab.column_end - slab.column, 0);
  const unsigned vectors = bytes == 16 ? columns / 8 : bytes == 8 ? columns / 4 : bytes == 4 ? columns / 2 : columns;
  const Image& in = a.p.in;
  const int rows = slab.row_end - slab.row, images = min(a.s.images, int(in.n) - first_image);
  if (vectors == 0 || rows <= 0) return;
  // A thread has one vector of every `at_once`-th row (or some vectors of every row).
  const int at_once = max(blockDim.x / vectors, 1u), first = int(threadIdx.x / vectors);
  if (first >= at_once) return;
  const int images_on = at_once / rows, rows_on = at_once - images_on * rows;
  const int64_t step = images_on * in.stride_n + rows_on * in.stride_h, next_image = in.stride_n - rows * in.stride_h;
#pragma unroll 1
  for (unsigned vector = threadIdx.x - first * vectors; vector < vectors; vector += blockDim.x) {
    const int column = slab.column + int(vector) * bytes / 2,
              bytes_of_row = min(max(2 * (int(in.w) - column), 0), bytes);
    int image = first / rows, row = first - image * rows;
    int at = image * a.s.image_stride + row * a.s.pitch + int(vector) * bytes;
    const T* from = plane + (first_image + image) * in.stride_n + (first_row + slab.row + row) * in.stride_h + column;
#pragma unroll 1
    while (image < a.s.images) {
      const int inside = image < images ? bytes_of_row : 0;
      const T* here = inside ? from : plane;  // zeros fill the rest
      unsigned char* there = to + at;
      if (a.s.gap) there += (floor_div(slab.row + row, a.s.strip_rows) - floor_div(slab.row, a.s.strip_rows)) * a.s.gap;
      if (bytes == 16) async_copy<16>(there, here, inside);
      else if (bytes == 8) async_copy<8>(there, here, inside);
      else if (bytes == 4) async_copy<4>(there, here, inside);
      else *reinterpret_cast<T*>(there) = inside ? *here : T{};
      image += images_on, row += rows_on, from += step;
      at += images_on * a.s.image_stride + rows_on * a.s.pitch;
      if (row >= rows) {
        row -= rows, ++image, from += next_image;
        at += a.s.image_stride - rows * a.s.pitch;
      }
    }
  }
}

// Writes the taps of one channel into its table of zeros. Returns whether one of them is not finite.
template <typename T, LargeMmaPolicy tile>
__device__ __forceinline__ bool write_taps(const LargeMmaArgs& a, unsigned char* table, const T* weight) {
  const unsigned kw = unsigned(a.p.kw), taps = unsigned(a.p.kh) * kw;
  bool not_finite = false;
#pragma unroll 4
  for (unsigned e = threadIdx.x; e < taps; e += blockDim.x) {
    const unsigned i = a.by_kw.divide(e), j = e - i * kw;
    const uint16_t tap = weight[e].bits;
    not_finite |= !is_finite<T>(tap);
    uint16_t* const to = reinterpret_cast<uint16_t*>(table) +
                         (i + tile.rows - 1) * (2 * large_mma_row_words(tile.spans)) + kLargeMmaLead + j;
    to[0] = tap;
    to[a.s.second_copy / 2 - 1] = tap;
  }
  return not_finite;
}

// Computes one output as a chain.
template <typename T, Activation kind>
__device__ __noinline__ void recompute(const Depthwise& p, int64_t n, int64_t c, int64_t y, int64_t x) {
  const T* weight = static_cast<const T*>(p.weight) + c * p.kh * p.kw;
  const T* plane = static_cast<const T*>(p.in.data) + n * p.in.stride_n + c / p.multiplier() * p.in.stride_c;
  float sum = 0;
  for (int64_t i = 0; i < p.kh; ++i)
    for (int64_t j = 0; j < p.kw; ++j) {
      const int64_t row = y + i - p.place.pad_y, column = x + j - p.place.pad_x;
      const bool inside = row >= 0 && row < p.in.h && column >= 0 && column < p.in.w;
      sum = fmaf(to_acc<float>(*weight++),
                 inside ? to_acc<float>(plane[row * p.in.stride_h + column * p.in.stride_w]) : 0.f, sum);
    }
  const float bias = p.bias ? to_acc<float>(static_cast<const T*>(p.bias)[c]) : 0.f;
  static_cast<T*>(p.out.data)[n * p.out.stride_n + c * p.out.stride_c + y * p.out.stride_h + x * p.out.stride_w] =
      from_acc<T>(activated<kind>(sum + bias));
}

// Loads the input and the taps of a block into shared memory. Returns whether a tap is not finite.
template <typename T, LargeMmaPolicy tile>
__device__ __forceinline__ bool load_block(const LargeMmaArgs& a, const Slab& slab, unsigned char* large_shared,
                                           int first_image, int first_channel, int channels, int y_tile) {
  const Depthwise& p = a.p;
  const LargeMmaShape& s = a.s;
  const auto clear = [&](unsigned char* from, int bytes) {
    for (int e = 16 * int(threadIdx.x); e < bytes; e += 16 * int(blockDim.x))
      *reinterpret_cast<uint4*>(from + e) = make_uint4(0, 0, 0, 0);
  };
  const int images = min(s.images, int(p.in.n) - first_image);
#if __CUDA_ARCH__ >= 900
  // The first warp starts the copies of whole planes, one for each image.
  uint64_t* const arrived = reinterpret_cast<uint64_t*>(large_shared + kLargeMmaZeros);
  if (a.plane_bytes && threadIdx.x < 32) {
    if (threadIdx.x == 0) {
      tma::barrier_init(arrived);
      tma::barrier_expect(arrived, channels * images * a.plane_bytes);
    }
    __syncwarp();
  }
#endif
  clear(large_shared, kLargeMmaZeros);
#pragma unroll 1
  for (int c = 0; c < channels; ++c) {
    unsigned char* const to = large_shared + kLargeMmaHead + c * s.channel_bytes;
    const T* plane = static_cast<const T*>(p.in.data) + a.by_multiplier.divide(first_channel + c) * p.in.stride_c;
#if __CUDA_ARCH__ >= 900
    if (a.plane_bytes) {
      if (int(threadIdx.x) < images)
        tma::bulk_load(to + threadIdx.x * s.image_stride, plane + (first_image + int(threadIdx.x)) * p.in.stride_n,
                       a.plane_bytes, arrived);
      clear(to + images * s.image_stride, (s.images - images) * s.image_stride);
    }
#endif
    if (!a.plane_bytes) load_slab(a, slab, to, plane, first_image, y_tile);
    clear(to + s.table, s.channel_bytes - s.table);
  }
  __syncthreads();
  bool taps_not_finite = false;
#pragma unroll 1
  for (int c = 0; c < channels; ++c)
    taps_not_finite |=
        write_taps<T, tile>(a, large_shared + kLargeMmaHead + c * s.channel_bytes + s.table,
                            static_cast<const T*>(p.weight) + int64_t(first_channel + c) * (int(p.kh) * int(p.kw)));
  async_wait_all();
#if __CUDA_ARCH__ >= 900
  if (a.plane_bytes) tma::barrier_wait(arrived, 0);
#endif
  return __syncthreads_or(taps_not_finite);
}

// A bit for each sum that is not finite.
template <int kRows, int kBlocks>
__device__ __forceinline__ uint64_t bits_of_not_finite(const float (&sum)[kRows][kBlocks][4]) {
  float probe = 0;
#pragma unroll
  for (int j = 0; j < kRows; ++j)
#pragma unroll
    for (int t = 0; t < kBlocks; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) probe = fmaf(sum[j][t][e], 0.f, probe);
  uint64_t wrong = 0;
  if (probe != 0) {
#pragma unroll
    for (int j = 0; j < kRows; ++j)
#pragma unroll
      for (int t = 0; t < kBlocks; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (sum[j][t][e] * 0.f != 0) wrong |= uint64_t(1) << ((j * kBlocks + t) * 4 + e);
  }
  return wrong;
}

}  // namespace large_mma

template <typename T, LargeMmaPolicy tile, Activation kind>
__global__ void __launch_bounds__(256, 2) depthwise_large_mma(const __grid_constant__ LargeMmaArgs a) {
  using namespace large_mma;
  constexpr int kRows = tile.rows, kBlocks = tile.blocks, kSpans = tile.spans, kLag = tile.lag,
                kPairStride = tile.pair_stride;
  constexpr int kFirstPair = tile.first_pair, kEndPair = tile.end_pair;
  constexpr bool kGuard = tile.guard;
  extern __shared__ __align__(128) unsigned char large_shared[];
  const Depthwise& p = a.p;
  const LargeMmaShape& s = a.s;
  const int kh = int(p.kh), pad = int(p.place.pad_y);

  // The block's tile. Its index counts, innermost first: columns, rows, channels, images.
  const unsigned along_y = a.by_tiles_x.divide(blockIdx.x), group = a.by_tiles_y.divide(along_y),
                 image_group = a.by_channel_groups.divide(group);
  const int x_tile = int(blockIdx.x - along_y * s.tiles_x) * s.tile_w,
            y_tile = int(along_y - group * s.tiles_y) * s.tile_h;
  const int first_channel = int(group - image_group * a.channel_groups) * s.channels,
            first_image = int(image_group) * s.images;
  const int channels = min(s.channels, int(p.out.c) - first_channel);
  Slab slab;
  slab.row = max(-pad, -y_tile);
  slab.row_end = min(s.tile_h + kh - 1 - pad, int(p.in.h) - y_tile);
  slab.column = max(0, x_tile - s.lead);
  constexpr int kUnit = 16 * kPairStride;
  slab.column_end = min((int(p.in.w) + kUnit - 1) / kUnit * kUnit, slab.column + s.slab_columns);
  slab.column_end = max(slab.column_end, slab.column);

  const bool taps_not_finite = load_block<T, tile>(a, slab, large_shared, first_image, first_channel, channels, y_tile);

  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const int g = lane / 4, q = lane % 4;
  const unsigned zeros = shared_address(large_shared);
  const int per_channel = s.row_groups * s.column_tiles;
#pragma unroll 1
  for (int task = warp; task < channels * per_channel; task += s.warps) {
    const int c = int(a.by_per_channel.divide(task)), tile_of_channel = task - c * per_channel;
    const int group = int(a.by_column_tiles.divide(tile_of_channel));
    const int x0 = x_tile + (tile_of_channel - group * s.column_tiles) * 8 * kBlocks, y0 = group * kRows;
    const int rows = min(kRows, s.strip_rows - y0);
    const unsigned start = shared_address(large_shared) + kLargeMmaHead + c * s.channel_bytes;

    // The addresses of a lane: row lane % 16 of M, block lane / 16 of a pair; its taps in the table.
    const int strip = lane % 16 & (s.strips - 1);
    const int row_at = strip * s.strip_rows - slab.row + y0 - pad;  // step i reads row `row_at + i` of the slab
    const int rows_inside = slab.row_end - slab.row;
    const int first_column = x0 - s.lead;  // of pair 0
    unsigned pixels = start + (lane % 16 >> s.strip_bits) * s.image_stride + strip * s.strip_stride +
                      lane / 16 * (16 * kPairStride) + (first_column - slab.column) * 2;
    const int at_tap = kLargeMmaLead - s.shift + 2 * q - g;
    unsigned taps = start + s.table + (at_tap % 2 ? s.second_copy : 0) + at_tap / 2 * 4;

    // Step i reads input row i + y0 - pad of every strip that has it. Window row i - j belongs to output row j.
    const int begin = max(0, slab.row - (s.strips - 1) * s.strip_rows - y0 + pad);
    const int end = min(kh + kRows - 1, slab.row_end - y0 + pad);
    const int u = begin + y0 - pad;  // input row of the first strip
    pixels += (u - slab.row) * s.pitch;
    int until_gap = 1 << 30;
    if (s.gap) {
      const int strips_before = floor_div(u, s.strip_rows);
      until_gap = s.strip_rows * (strips_before + 1) - u;
      pixels += (strips_before - floor_div(slab.row, s.strip_rows)) * s.gap;
    }

    float sum[kRows][kBlocks][4] = {};
    unsigned band[kRows][kSpans];
    constexpr int kRowBytes = 4 * large_mma_row_words(kSpans);
    auto load_band = [&](unsigned(&b)[kSpans], int i) {
#pragma unroll
      for (int d = 0; d < kSpans; ++d) b[d] = load_word(taps + (i + kRows - 1) * kRowBytes + 16 * d);
    };
#pragma unroll
    for (int j = 1; j < kRows; ++j) load_band(band[kRows - j], begin - j);

    auto add_rows = [&](auto all_inside, int first) {
      constexpr bool kAllInside = decltype(all_inside)::value;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int i = first + r;
        if (kAllInside || i < end) {
          load_band(band[r], i);
          const unsigned from = unsigned(row_at + i) < unsigned(rows_inside) ? pixels : zeros;
#pragma unroll
          for (int pair = kFirstPair; pair < kEndPair; ++pair) {
            const int block = LargeMmaPolicy::block(pair, kPairStride),
                      column = first_column + pair / kPairStride * (16 * kPairStride);
            if (!kGuard || (column >= slab.column && column < slab.column_end)) {
              unsigned v[4];
              load_matrices(v, from + 16 * block);
#pragma unroll
              for (int j = 0; j < kRows; ++j) {
                const unsigned(&b)[kSpans] = band[(r - j + kRows) % kRows];
                if (kAllInside || (i >= j && i < kh + j && j < rows)) {
#pragma unroll
                  for (int t = 0; t < kBlocks; ++t) {
                    const int d = block - kLag - t, e = d + kPairStride;  // of the pair's blocks
                    const bool one = d >= 0 && d < kSpans, two = e >= 0 && e < kSpans;
                    if (one && two) mma_add<T>(sum[j][t], v, b[d], b[e]);
                    else if (one) mma_add<T>(sum[j][t], v[0], v[1], b[d]);
                    else if (two) mma_add<T>(sum[j][t], v[2], v[3], b[e]);
                  }
                }
              }
            }
          }
          pixels += s.pitch;
          if (--until_gap == 0) until_gap = s.strip_rows, pixels += s.gap;
        }
      }
    };
#pragma unroll 1
    for (int i = begin; i < end; i += kRows) {
      if (i >= kRows - 1 && i + kRows <= min(end, kh) && rows == kRows) add_rows(std::true_type{}, i);
      else add_rows(std::false_type{}, i);
    }

    uint64_t wrong = bits_of_not_finite(sum);
    if (taps_not_finite) wrong = ~uint64_t(0);

    // These positions are computed a second time. So they take no registers while the sums are made.
    int task_out = task;
    asm volatile("" : "+r"(task_out));
    const int c_out = int(a.by_per_channel.divide(task_out)), of_channel_out = task_out - c_out * per_channel;
    const int group_out = int(a.by_column_tiles.divide(of_channel_out));
    const int channel = first_channel + c_out, y0_out = group_out * kRows;
    const int x0_out = x_tile + (of_channel_out - group_out * s.column_tiles) * (8 * kBlocks);
    if (p.bias) {
      const float bias = to_acc<float>(static_cast<const T*>(p.bias)[channel]);
#pragma unroll
      for (int j = 0; j < kRows; ++j)
#pragma unroll
        for (int t = 0; t < kBlocks; ++t)
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[j][t][e] += bias;
    }
    const int rows_here = min(kRows, s.strip_rows - y0_out);
    const int columns = min(int(p.out.w), x_tile + s.tile_w) - x0_out, rows_out = min(s.tile_h, int(p.out.h) - y_tile);
    auto image_of = [&](int half) { return first_image + (g + 8 * half >> s.strip_bits); };
    auto row_of = [&](int half) { return (g + 8 * half & (s.strips - 1)) * s.strip_rows + y0_out; };
    constexpr int kWords = kBlocks >= 3 ? 4 : kBlocks;
    const int column = kWords == 4 ? 8 * q : kWords == 2 ? q % 2 * 8 + q / 2 * 4 : 2 * q;
    const bool all_inside = columns >= 8 * kBlocks && a.store_bytes >= 4 * kWords;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int n = image_of(half), y = row_of(half), count = n < p.out.n ? min(rows_here, rows_out - y) : 0;
      T* row = static_cast<T*>(p.out.data) + n * p.out.stride_n + channel * p.out.stride_c +
               (y_tile + y) * p.out.stride_h + x0_out + column;
#pragma unroll
      for (int j = 0; j < kRows; ++j) {
#pragma unroll
        for (int t0 = 0; t0 < kBlocks; t0 += 4) {
          unsigned v[kWords] = {};
#pragma unroll
          for (int t = 0; t < kWords && t0 + t < kBlocks; ++t) {
            const float* two = sum[j][t0 + t] + 2 * half;
            v[t] = round_pair<T>(activated<kind>(two[0]), activated<kind>(two[1]));
          }
          transpose(v, q);
          const int inside = min(columns, 8 * kBlocks) - 8 * t0 - column;
          if (j < count) {
            if (!all_inside) store_inside(row + 8 * t0, v, inside, a.store_bytes);
            else if (inside > 0) store(row + 8 * t0, v);
          }
        }
        row += p.out.stride_h;
      }
    }
    if (__any_sync(~0u, wrong != 0)) {
      __syncwarp();
#pragma unroll 1
      for (int bit = 0; bit < 4 * kRows * kBlocks; ++bit) {
        const int j = bit / 4 / kBlocks, half = bit / 2 % 2;
        const int y = row_of(half) + j, x = bit / 4 % kBlocks * 8 + 2 * q + bit % 2;
        if ((wrong >> bit & 1) && image_of(half) < p.out.n && j < rows_here && y < rows_out && x < columns)
          recompute<T, kind>(p, image_of(half), channel, y_tile + y, x0_out + x);
      }
    }
  }
}

}  // namespace torch_conv::depthwise
