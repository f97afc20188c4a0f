// MMA_GENERAL: the bits of MMA for any of its windows, with all sizes at run time.
//
// clang-format off
//     a block: 64 columns of outputs, 16 rows a warp
//
//     +---------------------------+     A warp makes the sums between the passes for all columns that its outputs see,
//     | box: pixels, transposed   |     8 columns at a time, and keeps both parts of them in shared memory, each lane
//     |  +---------------------+  |     its own. Then it makes 8 columns of outputs at a time.
//     |  | warp 0: 16 rows     |  |
//     |  | warp 1              |  |         sums (16 x 8) = band of ty (16 x rows) * pixels (rows x 8)
//     |  | ...                 |  |         outputs (16 x 8) = sums (16 x columns) * band of tx (columns x 8)
//     |  +---------------------+  |
//     +---------------------------+
// clang-format on
//
// An output has the bits of MMA because it is the sum of the same sequence of mma. Bands, scales and parts are made by
// MMA's functions. The row pass takes the same pairs of groups of columns, and the group without a partner last.
//
// Zeros of a band times Inf or NaN are NaN: plain sums make each output again that is not finite. Outside of windows
// the box holds the elements of MMA's chunks. So both make the same outputs again.
//
// Two pixels of a column are a word, as the right matrix of the column pass has them. Bytes are widened in the box.
//
// Device memory per output: 1 read, 1 write. mma of the row pass: as many as MMA has. Column pass: neighbouring blocks
// both sum the columns that both see, 1.25 times as many mma at 15x15, 2.25 at 63x63.
#pragma once

#include "kernels/separable2d/mma/outputs.cuh"
#include "kernels/separable2d/mma/parts.cuh"
#include "kernels/separable2d/mma_general/params.h"

namespace torch_conv::separable2d {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

namespace mma_general {

// Fills the box, whose first column is `bx`. x0, y0: the block's first output. Elements outside of all windows are
// those of MMA: the image's pixels inside the image, else 0. MMA extends its chunks by whole rows, so that in rows
// outside the image columns before `end` follow the border policy, too.
template <typename T>
__device__ __forceinline__ void load_box(uint16_t* box, const MmaGeneralArgs& args, TilePosition at, int x0, int y0,
                                         int bx) {
  const BandArgs& a = args.band;
  const MmaPolicy& s = args.shape;
  const int h = a.planes.in_h, w = a.planes.in_w, lane = threadIdx.x % 32, columns = 8 * mma_general_groups(s);
  const int top = y0 - a.pad_y, bottom = min(y0 + s.rows(), a.planes.out_h) - a.pad_y + a.kh - 1;
  const int start = x0 - x0 % (a.segment * s.columns()), first = start - a.lead;  // of the segment, of its first chunk
  const int left = start - a.pad_x, right = min(start + a.segment * s.columns(), a.planes.out_w) - a.pad_x + a.kw - 1;
  const int end = first + (right - first + s.columns() - 1) / s.columns() * s.columns();  // of the last extended chunk
  const T* const plane = a.planes.in_plane<T>(at.n, at.c);
  const ShardRows shards{a.peers, at.n, at.c};
#pragma unroll 1
  for (int r = threadIdx.x / 32; r < s.box_h(); r += s.bands()) {
    const int y = top + r;
    const bool own = unsigned(y) < unsigned(h), seen = y < bottom;
    const int source = own || seen ? shards.map_row(y, h, a.border) : PeerRows::kOutside;
    const T* const row = shards.stands(source) ? shards.row(plane, a.planes.in_stride_h, source, h) : nullptr;
#pragma unroll 1
    for (int i = lane; i < columns; i += 32) {
      const int x = bx + i;
      T pixel = from_acc<T>(0.f);
      if (unsigned(x) < unsigned(w) && (own || (row && x < end))) {
        pixel = row[int64_t(x) * s.channels];
      } else if (seen && x >= left && x < right) {
        const int column = map_index(x, w, a.border);
        pixel = row && column >= 0 ? row[int64_t(column) * s.channels] : from_acc<T>(a.value);
      }
      uint16_t bits = 0;  // of a byte u, the half u * 2^-24
      memcpy(&bits, &pixel, sizeof(T));
      box[i * args.memory.pitch + r] = bits;
    }
  }
}

// The sums of two groups of 8 columns. `pixels`: the lane's words of the first group; those of the second are `further`
// words behind them. `band`: the lane's words of the left matrices, `part_words` words from part to part.
template <typename P>
__device__ __forceinline__ void column_pass(float (&sum)[2][4], const unsigned* band, int part_words, int halves,
                                            const unsigned* pixels, int further) {
#pragma unroll 1
  for (int part = 1; part >= 0; --part) {
    const unsigned* const words = band + part * part_words;
#pragma unroll 1
    for (int i = 0; i + 1 < halves; i += 2) {
      const unsigned left[4] = {words[64 * i], words[64 * i + 32], words[64 * i + 64], words[64 * i + 96]};
#pragma unroll
      for (int group = 0; group < 2; ++group) {
        const unsigned* const rows = pixels + group * further + 4 * i;
        mma_add<P>(sum[group], left, rows[0], rows[4]);
      }
    }
    if (halves % 2 == 1) {
      const int i = halves - 1;
#pragma unroll
      for (int group = 0; group < 2; ++group)
        mma_add<P>(sum[group], words[64 * i], words[64 * i + 32], pixels[group * further + 4 * i]);
    }
  }
}

// 8 columns of outputs, from `pairs` pairs of groups, then the group `lone`, if not negative. `sums`: the lane's words
// of the first pair's first group; `step` words of the band belong to a pair.
template <typename P>
__device__ __forceinline__ void row_pass(float (&out)[4], const uint2* sums, int groups, const unsigned* band,
                                         int part_words, int pairs, int step, const uint2* lone, const unsigned* last) {
#pragma unroll
  for (int term = 0; term < 3; ++term) {
    const int of_sums = (term == 0) * 32 * groups, of_taps = (term == 1) * part_words;
#pragma unroll 1
    for (int i = 0; i < pairs; ++i) {
      const uint2 a = sums[of_sums + 64 * i], b = sums[of_sums + 64 * i + 32];
      const unsigned* const right = band + of_taps + 32 * step * i;
      mma_add<P>(out, {a.x, a.y, b.x, b.y}, right[0], right[32]);
    }
    if (lone) mma_add<P>(out, lone[of_sums].x, lone[of_sums].y, last[of_taps]);
  }
}

// An output that is not finite, by plain sums.
template <typename T>
__device__ __noinline__ T make_again(const BandArgs& a, const T* plane, int pixel_stride, ShardRows rows,
                                     const float* taps_x, const float* taps_y, int x, int y) {
  return mma::make_plainly(a, plane, pixel_stride, rows, taps_x, taps_y, x, y);
}

}  // namespace mma_general

#endif

template <typename T>
__global__ void __launch_bounds__(128) separable_mma_general(const __grid_constant__ MmaGeneralArgs args) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using namespace mma;
  constexpr bool kBytes = sizeof(T) == 1, kHalf = std::is_same_v<T, half_t>;
  using P = std::conditional_t<kBytes, half_t, T>;  // the type of factors
  const BandArgs& a = args.band;
  const MmaPolicy& s = args.shape;
  extern __shared__ __align__(128) unsigned char separable_mma_general_shared[];
  unsigned char* const shared = separable_mma_general_shared;
  unsigned* const bands = reinterpret_cast<unsigned*>(shared);
  float* const taps_x = reinterpret_cast<float*>(shared + args.memory.taps_at) + s.taps_before;
  float* const taps_y = taps_x + s.taps_held;
  uint16_t* const box = reinterpret_cast<uint16_t*>(shared + args.memory.box_at);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, q = lane % 4;

  const TilePosition at = a.order.at(blockIdx.x);
  const int x0 = int(at.x) * kMmaGeneralColumns, y0 = int(at.y) * s.rows();
  const int before = tiles_before(s.tile(), a.pad_x);
  mma_general::load_box<T>(box, args, at, x0, y0, x0 - before * s.tile());
  write_taps(taps_x - s.taps_before, a.taps.of<float>(a.taps.x, at.n, at.c), a.kw, blockDim.x);
  write_taps(taps_y - s.taps_before, a.taps.of<float>(a.taps.y, at.n, at.c), a.kh, blockDim.x);
  __syncthreads();
  const Scales scales = scales_of<T>(taps_x, a.kw, taps_y, a.kh);
  make_bands<P>(bands, taps_x, taps_y, scales, a.pad_x, s, s.bands());
  __syncthreads();

  // sums[part][group][lane]: the words of rows g and g + 8, as the left matrix of the row pass has them.
  const int groups = mma_general_groups(s), part_words = 32 * s.band_words();
  uint2* const sums = reinterpret_cast<uint2*>(shared + args.memory.sums_at) + warp * s.parts * groups * 32 + lane;
#pragma unroll 1
  for (int group = 0; group < groups; group += 2) {
    // Of bytes a lane's column is 2 g in the first group, and its neighbour in the second.
    const uint16_t* const pixels = box + (8 * group + (kBytes ? 2 * g : g)) * args.memory.pitch + 16 * warp + 2 * q;
    float sum[2][4] = {};
    mma_general::column_pass<P>(sum, bands + lane, part_words, s.halves, reinterpret_cast<const unsigned*>(pixels),
                                (kBytes ? 1 : 8) * args.memory.pitch / 2);
    const float scale = kHalf ? scales.between : 1.f;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint2 large, small;
      split<P>(sum[i][0] * scale, sum[i][1] * scale, large.x, small.x);
      split<P>(sum[i][2] * scale, sum[i][3] * scale, large.y, small.y);
      sums[32 * (group + i)] = large, sums[32 * (groups + group + i)] = small;
    }
  }

  const unsigned* const band = bands + 32 * s.column_words() + lane;
  const int y = y0 + 16 * warp;
  const T* const plane = a.planes.in_plane<T>(at.n, at.c);
  T* const outputs = a.planes.out_plane<T>(at.n, at.c);
  const ShardRows shards{a.peers, at.n, at.c};
#pragma unroll 1
  for (int group = 0; group < kMmaGeneralGroups && x0 + 8 * group < a.planes.out_w; ++group) {
    float out[4] = {};
    if constexpr (kBytes) {
      mma_general::row_pass<P>(out, sums + 32 * (group & ~1), groups, band + 64 * (group % 2), part_words, s.tiles, 4,
                               nullptr, nullptr);
    } else {
      // Pairs of groups start at even tiles of the image. The first or the last of an odd number has no partner.
      const int odd = (group + before) % 2, lone = odd ? 0 : s.tiles - 1;
      mma_general::row_pass<P>(out, sums + 32 * (group + odd), groups, band + 32 * odd, part_words, s.tiles / 2, 2,
                               sums + 32 * (group + lone), band + 32 * lone);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = y + g + i / 2 * 8, column = x0 + 8 * group + 2 * q + i % 2;
      if (row >= a.planes.out_h || column >= a.planes.out_w) continue;
      T output;
      if constexpr (kBytes) output = T(round_byte(out[i] * scales.back));
      else output = from_acc<T>(kHalf ? out[i] * scales.back : out[i]);
      const float value = to_acc<float>(output);
      if (kBytes ? scales.wild : value - value != 0)
        output = mma_general::make_again(a, plane, s.channels, shards, taps_x, taps_y, column, row);
      const int left = column - a.pad_x, top = row - a.pad_y;
      const bool fits = left >= 0 && left + a.kw <= a.planes.in_w && a.peers.inside(top, top + a.kh - 1, a.planes.in_h);
      if (a.border == Border::zero_output && !fits) output = from_acc<T>(0.f);
      outputs[row * a.planes.out_stride_h + int64_t(column) * s.channels] = output;
    }
  }
#endif
}

}  // namespace torch_conv::separable2d
