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

#include "kernels/depthwise/large_mma/load.cuh"
#include "kernels/depthwise/large_mma/packed.cuh"
#include "kernels/depthwise/shared/mma.cuh"

namespace torch_conv::depthwise {

namespace large_mma {

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

// A task is a warp's tile of channel c of the block. It begins at row y of every strip and at column x, and has kRows
// rows and kBlocks blocks of columns.
template <LargeMmaPolicy tile>
struct Task {
  int c, x, y;

  __device__ __forceinline__ static Task of(const LargeMmaArgs& a, const BlockTile& block, int task) {
    const int c = int(a.by_per_channel.divide(task)), of_channel = task - c * (a.s.row_groups * a.s.column_tiles);
    const int group = int(a.by_column_tiles.divide(of_channel));
    return {c, block.x + (of_channel - group * a.s.column_tiles) * (8 * tile.blocks), group * tile.rows};
  }
};

// The sums of a task. Step i reads input row i + y - pad of every strip that has it. Window row i - j belongs to output
// row j.
template <typename T, LargeMmaPolicy tile>
struct TaskSums {
  static constexpr int kRows = tile.rows, kBlocks = tile.blocks, kSpans = tile.spans, kUnit = tile.unit();
  static constexpr int kRowBytes = 4 * large_mma_row_words(kSpans);

  const LargeMmaArgs& a;
  const Slab& slab;
  const int kh;
  unsigned zeros, pixels, taps;  // the lane's addresses in shared memory: row lane % 16 of M, block lane / 16 of a pair
  int row_at;                    // step i reads row `row_at + i` of the slab
  int first_column;              // of pair 0
  int rows;                      // output rows inside the strip
  int begin, end;                // steps
  int until_gap;                 // steps until the next strip's rows
  unsigned band[kRows][kSpans];  // window rows, which rotate
  float sum[kRows][kBlocks][4];

  __device__ __forceinline__ TaskSums(const LargeMmaArgs& args, const BlockTile& block, const Task<tile>& task,
                                      unsigned shared)
      : a(args), slab(block.slab), kh(int(a.p.kh)), zeros(shared), sum{} {
    const LargeMmaShape& s = a.s;
    const int lane = threadIdx.x % 32, pad = int(a.p.place.pad_y);
    const int strip = lane % 16 & (s.strips - 1);
    const unsigned start = shared + kLargeMmaHead + task.c * s.channel_bytes;
    rows = min(kRows, s.strip_rows - task.y);
    row_at = strip * s.strip_rows - slab.row + task.y - pad;
    first_column = task.x - s.lead;
    pixels = start + (lane % 16 >> s.strip_bits) * s.image_stride + strip * s.strip_stride + lane / 16 * kUnit +
             (first_column - slab.column) * 2;
    const int at_tap = kLargeMmaLead - s.shift + 2 * (lane % 4) - lane / 4;
    taps = start + s.table + (at_tap % 2 ? s.second_copy : 0) + at_tap / 2 * 4;

    begin = max(0, slab.row - (s.strips - 1) * s.strip_rows - task.y + pad);
    end = min(kh + kRows - 1, slab.row_end - task.y + pad);
    const int u = begin + task.y - pad;  // input row of the first strip
    pixels += (u - slab.row) * s.pitch;
    until_gap = 1 << 30;
    if (s.gap) {
      const int strips_before = floor_div(u, s.strip_rows);
      until_gap = s.strip_rows * (strips_before + 1) - u;
      pixels += (strips_before - floor_div(slab.row, s.strip_rows)) * s.gap;
    }
#pragma unroll
    for (int j = 1; j < kRows; ++j) load_band(band[kRows - j], begin - j);
  }

  __device__ __forceinline__ void load_band(unsigned (&b)[kSpans], int i) const {
#pragma unroll
    for (int d = 0; d < kSpans; ++d) b[d] = read_word(taps + (i + kRows - 1) * kRowBytes + 16 * d);
  }

  // Adds the two input blocks of a pair, the first of which is block `block`, to output row j.
  __device__ __forceinline__ void add_pair(int j, int block, const unsigned (&v)[4], const unsigned (&b)[kSpans]) {
#pragma unroll
    for (int t = 0; t < kBlocks; ++t) {
      const int d = block - tile.lag - t, e = d + tile.pair_stride;
      const bool one = d >= 0 && d < kSpans, two = e >= 0 && e < kSpans;
      if (one && two) mma_add<T>(sum[j][t], v, b[d], b[e]);
      else if (one) mma_add<T>(sum[j][t], v[0], v[1], b[d]);
      else if (two) mma_add<T>(sum[j][t], v[2], v[3], b[e]);
    }
  }

  // Takes kRows steps from step `first` on, of which all output rows or some need every one.
  template <bool kAllInside>
  __device__ __forceinline__ void add_rows(int first) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int i = first + r;
      if (!kAllInside && i >= end) continue;
      load_band(band[r], i);
      const unsigned from = unsigned(row_at + i) < unsigned(slab.row_end - slab.row) ? pixels : zeros;
#pragma unroll
      for (int pair = tile.first_pair; pair < tile.end_pair; ++pair) {
        const int block = LargeMmaPolicy::block(pair, tile.pair_stride),
                  column = first_column + pair / tile.pair_stride * kUnit;
        if (tile.guard && (column < slab.column || column >= slab.column_end)) continue;
        unsigned v[4];
        load_matrices(v, from + 16 * block);
#pragma unroll
        for (int j = 0; j < kRows; ++j)
          if (kAllInside || (i >= j && i < kh + j && j < rows)) add_pair(j, block, v, band[(r - j + kRows) % kRows]);
      }
      pixels += a.s.pitch;
      if (--until_gap == 0) until_gap = a.s.strip_rows, pixels += a.s.gap;
    }
  }

  __device__ __forceinline__ void add_up() {
#pragma unroll 1
    for (int i = begin; i < end; i += kRows) {
      if (i >= kRows - 1 && i + kRows <= min(end, kh) && rows == kRows) add_rows<true>(i);
      else add_rows<false>(i);
    }
  }
};

// The outputs of a task: a lane has rows g and g + 8 of M, which are a strip of an image each.
template <typename T, LargeMmaPolicy tile, Activation kind>
struct TaskOutputs {
  static constexpr int kRows = tile.rows, kBlocks = tile.blocks;
  static constexpr int kWords = kBlocks >= 3 ? 4 : kBlocks;  // that a lane stores at once

  const LargeMmaArgs& a;
  const BlockTile& block;
  const Task<tile> task;
  const int channel, columns, rows_of_strip, rows;  // inside the tile

  __device__ __forceinline__ TaskOutputs(const LargeMmaArgs& args, const BlockTile& of, const Task<tile>& at)
      : a(args),
        block(of),
        task(at),
        channel(block.first_channel + task.c),
        columns(min(int(a.p.out.w), block.x + a.s.tile_w) - task.x),
        rows_of_strip(min(kRows, a.s.strip_rows - task.y)),
        rows(min(a.s.tile_h, int(a.p.out.h) - block.y)) {}

  int lane_row(int half) const { return threadIdx.x % 32 / 4 + 8 * half; }
  int image(int half) const { return block.first_image + (lane_row(half) >> a.s.strip_bits); }
  int row(int half) const { return (lane_row(half) & (a.s.strips - 1)) * a.s.strip_rows + task.y; }

  __device__ __forceinline__ void store(float (&sum)[kRows][kBlocks][4]) const {
    const Image& out = a.p.out;
    if (a.p.bias) {
      const float bias = to_acc<float>(static_cast<const T*>(a.p.bias)[channel]);
#pragma unroll
      for (int j = 0; j < kRows; ++j)
#pragma unroll
        for (int t = 0; t < kBlocks; ++t)
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[j][t][e] += bias;
    }
    const int q = threadIdx.x % 4, column = kWords == 4 ? 8 * q : kWords == 2 ? q % 2 * 8 + q / 2 * 4 : 2 * q;
    const bool all_inside = columns >= 8 * kBlocks && a.store_bytes >= 4 * kWords;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int n = image(half), y = row(half), count = n < out.n ? min(rows_of_strip, rows - y) : 0;
      T* to = static_cast<T*>(out.data) + n * out.stride_n + channel * out.stride_c + (block.y + y) * out.stride_h +
              task.x + column;
#pragma unroll
      for (int j = 0; j < kRows; ++j) {
#pragma unroll
        for (int t0 = 0; t0 < kBlocks; t0 += 4) {
          unsigned v[kWords] = {};
#pragma unroll
          for (int t = 0; t < kWords && t0 + t < kBlocks; ++t) {
            const float* two = sum[j][t0 + t] + 2 * half;
            v[t] = output_pair<T, kind>(two[0], two[1]);
          }
          transpose(v, q);
          const int inside = min(columns, 8 * kBlocks) - 8 * t0 - column;
          if (j < count) {
            if (!all_inside) store_inside(to + 8 * t0, v, inside, a.store_bytes);
            else if (inside > 0) large_mma::store(to + 8 * t0, v);
          }
        }
        to += out.stride_h;
      }
    }
  }

  // Computes the outputs again that have a bit in `wrong`.
  __device__ __forceinline__ void repair(uint64_t wrong) const {
    __syncwarp();
#pragma unroll 1
    for (int bit = 0; bit < 4 * kRows * kBlocks; ++bit) {
      const int j = bit / 4 / kBlocks, half = bit / 2 % 2;
      const int y = row(half) + j, x = bit / 4 % kBlocks * 8 + 2 * (threadIdx.x % 4) + bit % 2;
      if ((wrong >> bit & 1) && image(half) < a.p.out.n && j < rows_of_strip && y < rows && x < columns)
        recompute<T, kind>(a.p, image(half), channel, block.y + y, task.x + x);
    }
  }
};

}  // namespace large_mma

template <typename T, LargeMmaPolicy tile, Activation kind>
__global__ void __launch_bounds__(256, 2) depthwise_large_mma(const __grid_constant__ LargeMmaArgs a) {
  using namespace large_mma;
  extern __shared__ __align__(128) unsigned char large_shared[];
  const BlockTile block = BlockTile::of(a, blockIdx.x, tile.unit());
  const bool taps_not_finite = load_block<T, tile>(a, block, large_shared);

  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
  const int tasks = block.channels * (a.s.row_groups * a.s.column_tiles);
#pragma unroll 1
  for (int task = warp; task < tasks; task += a.s.warps) {
    TaskSums<T, tile> sums(a, block, Task<tile>::of(a, block, task), shared_address(large_shared));
    sums.add_up();
    uint64_t wrong = bits_of_not_finite(sums.sum);
    if (taps_not_finite) wrong = ~uint64_t(0);
    // The positions are computed a second time. So they take no registers while the sums are made.
    int task_out = task;
    asm volatile("" : "+r"(task_out));
    const TaskOutputs<T, tile, kind> outputs(a, block, Task<tile>::of(a, block, task_out));
    outputs.store(sums.sum);
    if (__any_sync(~0u, wrong != 0)) outputs.repair(wrong);
  }
}

}  // namespace torch_conv::depthwise
