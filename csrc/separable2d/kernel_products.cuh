// PRODUCTS: both passes as products of banded matrices on tensor cores, chained in registers; float16, bfloat16, bytes.
//
// clang-format off
//            a chunk, 128 bytes                                column pass: sums (16 rows x 8 columns) =
//      <---- lead ---->                                          band of ty (16 x rows) * pixels (rows x 8)
//   +--+--+--+--+--+--+--+--+ -                                      ty ty ty .  .  .
//   |     rows above        |                                        .  ty ty ty .  .
//   |  +--------------------|        a segment:                      .  .  ty ty ty .
//   |  | warp 0: 16 rows    | box_h  64 rows of outputs,
//   |  | warp 1     --->    |        some chunks wide        row pass: outputs (16 x 8) =
//   |  | warp 2             |                                    sums (16 x columns) * band of tx (columns x 8)
//   |  | warp 3             |
//   |  +--------------------|        the sums of the last `tiles` tiles stay in registers: as the tensor core leaves
//   |     rows below        |        them, so it takes them as a left matrix
//   +-----------------------+ -
// clang-format on
// A block marches along its rows. Bulk copies bring chunk after chunk into a ring of stages, swizzled, so that eight
// rows of 16 bytes are read at once; every warp stores its outputs as boxes of 16 rows by bulk copies, too. Warps meet
// nowhere but at the stages' barriers, and at the image's edges: there all threads extend a chunk by the border policy.
//
// Taps are sums of two numbers of 16 bits, and so are the sums between the passes: small by large and large by small
// are multiplied first, then large by large, small by small nowhere. float16's are scaled by powers of two, which keep
// the largest tap near 2^14, and every sum between the passes below the largest pixel. Bytes multiply as they are: two
// of them as the halves u * 2^-24, which is a mask, or a permutation of bytes; even and odd columns apart.
//
// Device memory per output: 1 read, 1 write. Products for 128 outputs: float16 15x15 10, 31x31 15; bytes 5x5 10, 15x15
// 10, 31x31 15.
//
// Zeros of a band times Inf or NaN are NaN: outputs that are not finite are made again by plain sums.
#pragma once

#include "separable2d/products_parts.cuh"

namespace torch_conv::separable2d {

template <typename T, int kHalves, int kTiles, int kEarly, bool kFirstSeesLast, bool kLastSeesFirst, bool kStores>
struct Bands {
  static constexpr BandShape shape{sizeof(T), kHalves, kTiles, kEarly, kStores, kFirstSeesLast, kLastSeesFirst};
};

// The numbers are a BandShape's. `kLoads`, `kStores`: bulk copies bring chunks, and take outputs away; else single
// threads do, of rows that start anywhere.
template <typename T, int kHalves, int kTiles, int kEarly, bool kFirstSeesLast, bool kLastSeesFirst, bool kLoads,
          bool kStores>
__global__ void __launch_bounds__(
    32 * BandShape::warps,
    Bands<T, kHalves, kTiles, kEarly, kFirstSeesLast, kLastSeesFirst, kStores>::shape.min_blocks())
    separable_products(const __grid_constant__ TensorMap in_map, const __grid_constant__ TensorMap out_map,
                       const __grid_constant__ BandArgs a) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using namespace products;
  constexpr BandShape s = Bands<T, kHalves, kTiles, kEarly, kFirstSeesLast, kLastSeesFirst, kStores>::shape;
  constexpr bool kBytes = sizeof(T) == 1, kHalf = std::is_same_v<T, half_t>;
  using P = std::conditional_t<kBytes, half_t, T>;  // what is multiplied
  constexpr int kChunkTiles = s.chunk_tiles(), kStages = s.stages(), kShift = s.shift();
  extern __shared__ __align__(1024) unsigned char separable_products_shared[];
  unsigned char* const stages = separable_products_shared;
  const auto taps = reinterpret_cast<float*>(stages + s.taps_at());
  float *const taps_x = taps + s.taps_before, *const taps_y = taps_x + s.taps_held;
  uint64_t* const full = reinterpret_cast<uint64_t*>(stages + s.barriers_at());
  uint64_t* const empty = full + kStages;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  const TilePlace at = a.order.at(blockIdx.x);
  const int x0 = int(at.x) * a.segment * s.columns(), y0 = int(at.y) * s.rows;
  const int width = min(a.segment * s.columns(), a.planes.out_w - x0);
  const int out_chunks = (width + s.columns() - 1) / s.columns(), chunks = out_chunks + s.lag_chunks();
  const int tiles = out_chunks * kChunkTiles + s.lag();  // of pixels that outputs need
  const int top = y0 - a.pad_y, bottom = min(y0 + s.rows, a.planes.out_h) - a.pad_y + a.kh - 1;
  const int left = x0 - a.pad_x, right = x0 + width - a.pad_x + a.kw - 1;
  const auto load = [&](int chunk) {
    const int stage = chunk % kStages;
    tma::barrier_expect(full + stage, s.box_bytes());
    tma::load_box(stages + stage * s.box_bytes(), &in_map, full + stage, x0 - a.lead + chunk * s.columns(), top, at.c,
                  at.n);
  };
  if (kLoads && threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      tma::barrier_init(full + i);
      tma::barrier_init(empty + i, s.warps * kWarpArrivals);
    }
    for (int i = 0; i < min(kStages, chunks); ++i) load(i);
  }

  const T* const plane = a.planes.in_plane<T>(at.n, at.c);
  unsigned char* const raw = stages + s.box_bytes();
  if constexpr (!kLoads) copy_words<s.box_h()>(raw, a, plane, x0 - a.lead, top);

  place_taps(taps_x - s.taps_before, a.taps.of<float>(a.taps.x, at.n, at.c), a.kw);
  place_taps(taps_y - s.taps_before, a.taps.of<float>(a.taps.y, at.n, at.c), a.kh);
  __syncthreads();
  const Scales scales = scales_of<T>(taps_x, a.kw, taps_y, a.kh);
  // Where later outputs stand. (Made by every lane for itself, they cost 70 moves a chunk.)
  unsigned* const words = reinterpret_cast<unsigned*>(stages + s.outputs_at());
  make_bands<P, s>(words, taps_x, taps_y, scales, a.pad_x);
  __syncthreads();
  unsigned column_band[kHalves][2][2], row_band[s.row_words()][2];  // [1]: the small parts
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const unsigned* own = words + part * s.band_words() * 32 + lane;
#pragma unroll
    for (int i = 0; i < s.column_words(); ++i) column_band[i / 2][i % 2][part] = own[32 * i];
#pragma unroll
    for (int i = 0; i < s.row_words(); ++i) row_band[i][part] = own[32 * (s.column_words() + i)];
  }
  __syncthreads();

  const bool outer_rows = top < 0 || bottom > a.planes.in_h;
  const bool mask = a.border == Border::zero_output;
  const bool zeros = mask || (a.border == Border::constant && a.value == 0);
  const bool borrows = a.beside.holds(top, a.planes.in_h) || a.beside.holds(bottom - 1, a.planes.in_h);
  const int y = y0 + 16 * warp;

  // Tiles 2 i and 2 i + 1 of a chunk of 16-bit elements share the registers of one matrix.
  Sums<kBytes ? kTiles : kTiles / 2 + 1, kBytes ? kChunkTiles : kChunkTiles / 2> sums;
  unsigned char* filling = stages + s.outputs_at() + warp * s.boxes() * s.out_box_bytes();
  unsigned char* next = filling + s.out_box_bytes();
  unsigned char* leaving = next + (s.boxes() == 3 ? s.out_box_bytes() : 0);
  unsigned probe = 0, probe_before = 0;
  int stage = 0, phase = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    unsigned char* const box = stages + (kLoads ? stage * s.box_bytes() : 0);
    const int bx = x0 - a.lead + chunk * s.columns();
    if constexpr (kLoads) {
      tma::barrier_wait(full + stage, phase);
      if (threadIdx.x == 0 && chunk > 0 && chunk - 1 + kStages < chunks) {
        tma::barrier_wait(empty + (chunk - 1) % kStages, (chunk - 1) / kStages % 2);
        load(chunk - 1 + kStages);
      }
      __syncwarp();
    } else {
      async_wait_all();
      __syncthreads();  // the words are there, and nobody reads the chunk before any more
      place_words<s.box_h()>(box, raw, a, plane, bx, top);
      __syncthreads();
      if (chunk + 1 < chunks) copy_words<s.box_h()>(raw, a, plane, bx + s.columns(), top);
    }
    const int from = max(left - bx, 0), to = min(right - bx, s.columns());
    const bool outer = outer_rows || bx + from < 0 || bx + to > a.planes.in_w;
    if (outer && from < to && (!zeros || borrows)) extend_chunk<T>(box, a, at, bx, top, bottom, from, to);

    const unsigned char* const own_row = box + (16 * warp + lane) * s.chunk;
#pragma unroll
    for (int first = 0; first < kChunkTiles; first += tiles_at_once<T>()) {
      if (first > 0 && chunk * kChunkTiles + first >= tiles) break;
      constexpr int kAtOnce = tiles_at_once<T>();
      unsigned pixels[kAtOnce][kHalves];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) load_columns(pixels[i], own_row + ((first + i) ^ lane % 8) * 16);
      float out[kAtOnce][kBytes ? 2 : 1][4];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int tile = first + i;
        if constexpr (kBytes) {
#pragma unroll
          for (int odd = 0; odd < 2; ++odd) {
            unsigned halves[kHalves];
#pragma unroll
            for (int h = 0; h < kHalves; ++h) halves[h] = bytes_as_halves(pixels[i][h], odd);
            float sum[4];
            column_pass<P, kHalves>(sum, column_band, halves);
            split<P>(sum, 1.f, sums, tile, 2 * odd);
          }
#pragma unroll
          for (int of = 0; of < 2; ++of)
            row_pass<P>(out[i][of], sums, row_band, tile, 2 * of, of && !kLastSeesFirst ? 1 : 0,
                        !of && !kFirstSeesLast ? kTiles - 1 : kTiles);
        } else {
          float sum[4];
          column_pass<P, kHalves>(sum, column_band, pixels[i]);
          split<P>(sum, kHalf ? scales.between : 1.f, sums, tile / 2, tile % 2 * 2);
          row_pass<P>(out[i][0], sums, row_band, tile / 2, tile % 2);
        }
      }
      // A box that bulk copies have read is free.
      if (kStores && first == kShift / kAtOnce * kAtOnce) {
        if (lane == 0) tma::store_wait_read<kShift ? 0 : 1>();
        __syncwarp();
      }
      // All stores after all products: the compiler moves neither across the other.
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int tile = first + i, to_tile = (tile - kShift + kChunkTiles) % kChunkTiles;
        unsigned char* const to_box = kShift && tile >= kShift ? next : filling;
        store_tile<T>(to_box, to_tile, lane, out[i], scales.back, probe);
      }
    }

    sums.next_chunk();

    // What fills is whole now, and the chunk is read.
    const int out_chunk = chunk - s.lag_chunks(), x = x0 + out_chunk * s.columns();
    const bool wrong = __any_sync(~0u, ((probe | probe_before) & 0x7fff7fff) != 0);
    probe_before = probe, probe = 0;
    const bool hangs_over = mask && (outer_rows || x < a.pad_x || x + s.columns() - a.pad_x + a.kw - 1 > a.planes.in_w);
    if (out_chunk >= 0 && (wrong || scales.wild)) mend<T>(a, filling, taps_x, taps_y, x, y, at, kBytes && scales.wild);
    if (out_chunk >= 0 && hangs_over) clear_hanging<T>(a, filling, x, y);
    if constexpr (kLoads || kStores) tma::fence_before_copy();
    if constexpr (kLoads) tma::warp_arrive(empty + stage);
    else __syncwarp();
    if constexpr (kStores) {
      if (lane == 0) {
        if (out_chunk >= 0 && y < a.planes.out_h) tma::store_box(&out_map, filling, x, y, at.c, at.n);
        tma::store_commit();
      }
    } else if (out_chunk >= 0) {
      store_rows_anywhere(filling, s.boxes() == 3 ? leaving : next, a.planes.out_plane<T>(at.n, at.c),
                          a.planes.out_stride_h, x, y, min(16, a.planes.out_h - y),
                          min(s.columns(), a.planes.out_w - x), out_chunk == 0, out_chunk == out_chunks - 1);
    }
    __syncwarp();
    unsigned char* const filled = filling;
    filling = next;
    if constexpr (s.boxes() == 3) next = leaving, leaving = filled;
    else next = filled;
    if (++stage == kStages) stage = 0, phase ^= 1;
  }
  if (kStores && lane == 0) tma::store_wait();
#endif
}

}  // namespace torch_conv::separable2d
