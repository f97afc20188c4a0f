// MMA: both passes as products of banded matrices on tensor cores, chained in registers; float16, bfloat16, bytes.
//
// clang-format off
//              a chunk, 128 bytes                                column pass: sums (16 rows x 8 columns) =
//        <---- lead ---->                                          band of ty (16 x rows) * pixels (rows x 8)
//     +--+--+--+--+--+--+--+--+ -                                      ty ty ty .  .  .
//     |     rows above        |                                        .  ty ty ty .  .
//     |  +--------------------|        a segment:                      .  .  ty ty ty .
//     |  | warp 0: 16 rows    | box_h  64 rows of outputs,
//     |  | warp 1     --->    |        some chunks wide        row pass: outputs (16 x 8) =
//     |  | warp 2             |                                    sums (16 x columns) * band of tx (columns x 8)
//     |  | warp 3             |
//     |  +--------------------|
//     |     rows below        |
//     +-----------------------+ -
// clang-format on
//
// A block streams along its rows. Bulk copies bring swizzled chunks into a ring of stages; eight rows of 16 bytes are
// read at once. Every warp stores its outputs as boxes of 16 rows by bulk copies. The sums of the last `tiles` tiles
// stay in registers: the layout in which a tensor core returns them is that of a left matrix. Warps synchronise at the
// stages' barriers, and at the image's edges, where all threads extend a chunk by the border policy.
//
// Taps are sums of two numbers of 16 bits, and so are the sums between the passes. The products small * large and large
// * small come first, then large * large; small * small is left out. float16 taps are scaled by powers of two: the
// largest tap is near 2^14, and no sum between the passes exceeds the largest pixel. Two bytes become the halves
// u * 2^-24 by a mask or a permutation, even and odd columns apart.
//
// Device memory per output: 1 read, 1 write. Products for 128 outputs: float16 15x15 10, 31x31 15; bytes 5x5 10, 15x15
// 10, 31x31 15.
//
// Zeros of a band times Inf or NaN are NaN: outputs that are not finite are made again by plain sums.
//
// Unaligned rows, and HWC images of 2 to 4 channels, become the same chunks in shared memory:
//
// clang-format off
//     memory    . . r g|b r g b|r g b r|   vectors of 16 bytes; a row starts anywhere in one
//     raw rows  . . r g|b r g b|r g b r|   the next chunk: by bulk copies where rows start on 16 bytes, else by threads
//     chunks    r r r r  g g g g  b b b b  a swizzled chunk for each channel, written by threads
//     outputs   . . . .|r g b r|g b r g|   16 rows of all channels' warps; in front of a row, the 16 bytes before it
//     memory    . . r g|b r g b|r g b r|   stores of whole vectors; of single elements at both ends of a segment
// clang-format on
//
// An HWC image's block has two bands of 16 rows, and a warp for each channel of a band. Every pixel and output passes
// shared memory once more than by bulk copies.
#pragma once

#include "kernels/separable2d/mma/outputs.cuh"
#include "kernels/separable2d/mma/parts.cuh"
#include "kernels/separable2d/mma/rows.cuh"

namespace torch_conv::separable2d {

template <typename T, MmaPolicy s>
__global__ void __launch_bounds__(s.threads(), s.min_blocks())
    separable_mma(const __grid_constant__ TensorMap in_map, const __grid_constant__ TensorMap out_map,
                  const __grid_constant__ BandArgs a) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using namespace mma;
  constexpr bool kBytes = sizeof(T) == 1, kHalf = std::is_same_v<T, half_t>, kBulk = s.bulk_loads();
  using P = std::conditional_t<kBytes, half_t, T>;  // the type of factors
  constexpr int kChunkTiles = s.chunk_tiles(), kStages = s.stages(), kShift = s.shift();
  extern __shared__ __align__(1024) unsigned char separable_mma_shared[];
  unsigned char* const stages = separable_mma_shared;
  const auto taps = reinterpret_cast<float*>(stages + s.taps_at());
  float *const taps_x = taps + s.taps_before, *const taps_y = taps_x + s.taps_held;
  uint64_t* const full = reinterpret_cast<uint64_t*>(stages + s.barriers_at());
  uint64_t* const empty = full + kStages;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int channel = s.channels == 1 ? 0 : warp % s.channels, band = warp / s.channels;

  const TilePosition at = a.order.at(blockIdx.x);
  const int x0 = int(at.x) * a.segment * s.columns(), y0 = int(at.y) * s.rows();
  const int width = min(a.segment * s.columns(), a.planes.out_w - x0);
  const int out_chunks = (width + s.columns() - 1) / s.columns(), chunks = out_chunks + s.lag_chunks();
  const int tiles = out_chunks * kChunkTiles + s.lag();  // of pixels that outputs need
  const int top = y0 - a.pad_y, bottom = min(y0 + s.rows(), a.planes.out_h) - a.pad_y + a.kh - 1;
  const int left = x0 - a.pad_x, right = x0 + width - a.pad_x + a.kw - 1;
  const auto column_of = [&](int chunk) { return x0 - a.lead + chunk * s.columns(); };  // the chunk's first
  unsigned char* const raw = stages + s.raw_at();
  const auto load = [&](int chunk) {
    const int stage = chunk % kStages;
    tma::barrier_expect(full + stage, s.channels * s.box_bytes());
    if constexpr (kBulk) {
      tma::load_box(stages + stage * s.box_bytes(), &in_map, full + stage, column_of(chunk), top, at.c, at.n);
    } else {
#pragma unroll
      for (int i = 0; i < s.channels; ++i)
        tma::load_box(raw + i * s.box_bytes(), &in_map, full, column_of(chunk) * s.channels + i * s.columns(), top,
                      at.c, at.n);
    }
  };
  if (s.loads && threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      tma::barrier_init(full + i);
      tma::barrier_init(empty + i, s.warps() * kWarpArrivals);
    }
    for (int i = 0; i < min(kStages, chunks); ++i) load(i);
  }

  const T* const plane = a.planes.in_plane<T>(at.n, at.c);
  const auto write = [&](int chunk) {
    write_rows<T, s>(stages + chunk % kStages * s.box_bytes(), raw, a, plane, column_of(chunk), top);
  };
  // Converts the vectors of a chunk that the warp has copied, and starts the copy of the next chunk.
  const auto write_copied = [&](int chunk) {
    async_wait_all();
    __syncwarp();
    write(chunk);
    __syncwarp();
    if (chunk + 1 < chunks) copy_rows<T, s>(raw, a, plane, column_of(chunk + 1), top);
  };
  if constexpr (!s.loads) copy_rows<T, s>(raw, a, plane, column_of(0), top);

  write_taps(taps_x - s.taps_before, a.taps.of<float>(a.taps.x, at.n, at.c), a.kw, s.threads());
  write_taps(taps_y - s.taps_before, a.taps.of<float>(a.taps.y, at.n, at.c), a.kh, s.threads());
  __syncthreads();
  const Scales scales = scales_of<T>(taps_x, a.kw, taps_y, a.kh);
  // In the memory of later outputs. Made by every lane, they cost 70 moves a chunk.
  unsigned* const words = reinterpret_cast<unsigned*>(stages + s.outputs_at());
  make_bands<P>(words, taps_x, taps_y, scales, a.pad_x, s, s.warps());
  __syncthreads();
  unsigned column_band[s.halves][2][2], row_band[s.row_words()][2];  // [1]: the small parts
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const unsigned* own = words + part * s.band_words() * 32 + lane;
#pragma unroll
    for (int i = 0; i < s.column_words(); ++i) column_band[i / 2][i % 2][part] = own[32 * i];
#pragma unroll
    for (int i = 0; i < s.row_words(); ++i) row_band[i][part] = own[32 * (s.column_words() + i)];
  }
  if constexpr (!s.loads && kStages == 2) write_copied(0);
  __syncthreads();

  const bool outer_rows = top < 0 || bottom > a.planes.in_h;
  const bool mask = a.border == Border::zero_output;
  const bool zeros = mask || (a.border == Border::constant && a.value == 0);
  const bool reads_peers = a.peers.holds(top, a.planes.in_h) || a.peers.holds(bottom - 1, a.planes.in_h);
  const int y = y0 + 16 * band;

  // Tiles 2 i and 2 i + 1 of a chunk of 16-bit elements share the registers of one matrix.
  Sums<kBytes ? s.tiles : s.tiles / 2 + 1, kBytes ? kChunkTiles : kChunkTiles / 2> sums;
  using Outputs = OutputBox<T, s>;
  constexpr int kBoxes = s.bulk_stores() ? 2 : 1;
  Outputs filling{stages + s.outputs_at() + band * kBoxes * s.out_box_bytes(), channel};
  [[maybe_unused]] Outputs next{filling.data + (kBoxes - 1) * s.out_box_bytes(), channel};
  [[maybe_unused]] unsigned probe = 0, probe_before = 0;
  int stage = 0, phase = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    unsigned char* const boxes = stages + stage * s.box_bytes();
    const int bx = column_of(chunk);
    if constexpr (kBulk) {
      tma::barrier_wait(full + stage, phase);
      if (threadIdx.x == 0 && chunk > 0 && chunk - 1 + kStages < chunks) {
        tma::barrier_wait(empty + (chunk - 1) % kStages, (chunk - 1) / kStages % 2);
        load(chunk - 1 + kStages);
      }
      __syncwarp();
    } else if constexpr (s.loads) {
      tma::barrier_wait(full, phase);
      write(chunk);
      __syncthreads();
      if (threadIdx.x == 0 && chunk + 1 < chunks) load(chunk + 1);
    } else if constexpr (kStages == 2) {
      if (chunk + 1 < chunks) write_copied(chunk + 1);
    } else {
      write_copied(chunk);
      __syncthreads();
    }
    const int from = max(left - bx, 0), to = min(right - bx, s.columns());
    const bool outer = outer_rows || bx + from < 0 || bx + to > a.planes.in_w;
    if (outer && from < to && (!zeros || reads_peers)) extend_chunk<T, s>(boxes, a, at, bx, top, bottom, from, to);

    const unsigned char* const own_row = boxes + channel * s.box_bytes() + (16 * band + lane) * s.chunk;
#pragma unroll
    for (int first = 0; first < kChunkTiles; first += tiles_at_once<T>()) {
      if (first > 0 && chunk * kChunkTiles + first >= tiles) break;
      constexpr int kAtOnce = tiles_at_once<T>();
      unsigned pixels[kAtOnce][s.halves];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) load_columns(pixels[i], own_row + ((first + i) ^ lane % 8) * 16);
      float out[kAtOnce][kBytes ? 2 : 1][4];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int tile = first + i;
        if constexpr (kBytes) {
#pragma unroll
          for (int odd = 0; odd < 2; ++odd) {
            unsigned halves[s.halves];
#pragma unroll
            for (int h = 0; h < s.halves; ++h) halves[h] = bytes_as_halves(pixels[i][h], odd);
            float sum[4];
            column_pass<P, s.halves>(sum, column_band, halves);
            split<P>(sum, 1.f, sums, tile, 2 * odd);
          }
#pragma unroll
          for (int of = 0; of < 2; ++of)
            row_pass<P>(out[i][of], sums, row_band, tile, 2 * of, of && !s.last_sees_first ? 1 : 0,
                        !of && !s.first_sees_last ? s.tiles - 1 : s.tiles);
        } else {
          float sum[4];
          column_pass<P, s.halves>(sum, column_band, pixels[i]);
          split<P>(sum, kHalf ? scales.between : 1.f, sums, tile / 2, tile % 2 * 2);
          row_pass<P>(out[i][0], sums, row_band, tile / 2, tile % 2);
        }
      }
      // A box that bulk copies have read is free.
      if (s.bulk_stores() && first == kShift / kAtOnce * kAtOnce) {
        if (lane == 0) tma::store_wait_read<kShift ? 0 : 1>();
        __syncwarp();
      }
      // All stores after all products: the compiler moves neither across the other.
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int tile = first + i, to_tile = (tile - kShift + kChunkTiles) % kChunkTiles;
        store_tile<T, s>(kShift && tile >= kShift ? next : filling, to_tile, lane, out[i], scales.back, probe);
      }
    }

    sums.next_chunk();

    // The stage being filled is complete now, and the chunk has been read.
    BoxColumns columns{.first = x0, .last = x0 + width};
    if constexpr (s.bulk_stores()) columns.x = x0 + (chunk - s.lag_chunks()) * s.columns();
    else columns.x = x0 + (chunk * kChunkTiles - s.lag()) * s.tile();
    const int behind = columns.x + s.columns();
    columns.begins = columns.x <= x0, columns.ends = behind >= columns.last;
    columns.first = max(columns.first, columns.x), columns.last = min(columns.last, behind);
    const bool some = columns.first < columns.last;
    const bool wrong = __any_sync(~0u, ((probe | (kShift ? probe_before : 0)) & 0x7fff7fff) != 0);
    probe_before = probe, probe = 0;
    const bool hangs_over = mask && (outer_rows || columns.x < a.pad_x || behind - a.pad_x + a.kw - 1 > a.planes.in_w);
    if (some && (wrong || scales.wild)) mend<T, s>(a, filling, taps_x, taps_y, columns, y, at, kBytes && scales.wild);
    if (some && hangs_over) clear_hanging<T, s>(a, filling, columns.x, y);
    if constexpr (kBulk || s.bulk_stores()) tma::fence_before_copy();
    if constexpr (kBulk) tma::warp_arrive(empty + stage);
    else __syncthreads();
    if constexpr (s.bulk_stores()) {
      if (lane == 0) {
        if (some && y < a.planes.out_h) tma::store_box(&out_map, filling.data, columns.x, y, at.c, at.n);
        tma::store_commit();
      }
    } else if (some) {
      store_words<T, s>(filling.data, channel, a.planes.out_plane<T>(at.n, at.c), a.planes.out_stride_h, columns, y,
                        min(16, a.planes.out_h - y));
    }
    __syncwarp();
    if constexpr (s.bulk_stores()) {
      const Outputs filled = filling;
      filling = next, next = filled;
    }
    if (++stage == kStages) stage = 0, phase ^= 1;
  }
  if (s.bulk_stores() && lane == 0) tma::store_wait();
#endif
}

}  // namespace torch_conv::separable2d
