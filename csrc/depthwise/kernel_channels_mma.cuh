// CHANNELS_MMA: channels_last images on sparse tensor cores, the weights as the sparse operand.
//
// clang-format off
//   slots of a tile     0 1 2 3 4 5 6 7 8 9 .. 15          a tile is 7 outputs of a row; its 16 slots are the pixels
//   pixels (c0, c1)     # # # # # # # # # # .. #           that their windows see, each a pair of channels, which is
//   output 0, window 7  w w w w w w w                      a 32-bit word of memory as it lies
//   output 1              w w w w w w w
//   ...                                                    of the 4 numbers of 2 pixels an output of channel c0 uses
//   output 6                          w w w w w w w        the first and third, one of c1 the others: a 2:4 sparse row
//
//   sums (7 + 1 outputs x 2 channels, 8 columns) += weights of a window row (16 x 32, sparse) * pixels (32, 8 columns)
//
//   a stage: 7 input rows of as many images as have            an input row adds to the KH output rows that see it: it
//   columns (here 8 tiles of one) and of 16 or 32 channels     starts one, goes on with others and finishes one. Their
//   +----+----+----+----+----+----+----+----+                  sums are in registers, numbered by the row modulo 7, so
//   |    |    |    |    |    |    |    |    | 7 rows           nothing moves while a warp walks down with the two
//   +----+----+----+----+----+----+----+----+                  pairs of channels that it has.
// clang-format on
// Boxes bring the rows and zeros for what lies outside; finished rows leave by boxes from shared memory. Input rows are
// read once, but for the KH - 1 rows above a range of rows that starts inside an image, and the KW - 1 columns between
// the segments of wide images.
//
// Bytes an output: 2 read, 2 written; 2 KH KW flops. A product makes 7 outputs of 2 channels in 8 columns for one row
// of the window: KH products an input row and pair, 4 loads and 2 stores of shared memory a warp.
//
// Slots outside an output's window have weight 0, so Inf and NaN spread over a tile. The eighth outputs of tiles have
// no weights at all: their sums are NaN if a slot's pixel is not finite, else 0. Then the rows are looked through, and
// what is NaN there is summed again, one tap after the other.
#pragma once

#include "depthwise/channels_mma_warp.cuh"

namespace torch_conv::depthwise {

template <typename T, int KH, int KW, int kTiles, int kChannels, int kStages, int kResident, Activation kind>
__global__ void __launch_bounds__(kChannels * 8, kResident)
    depthwise_channels_mma(const __grid_constant__ ChannelsMmaArgs a, const __grid_constant__ TensorMap in,
                           const __grid_constant__ TensorMap above, const __grid_constant__ TensorMap out,
                           const __grid_constant__ TensorMap first_out) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using namespace channels_mma;
  using Tile = TileOf<KH, KW, kTiles, kChannels, kStages>;
  constexpr ChannelsMmaTile t = Tile::value;
  constexpr int kRows = t.rows(), kStageBytes = t.stage_bytes(), kOutBytes = t.out_bytes();
  extern __shared__ __align__(1024) unsigned char channels_mma_stages[];
  __shared__ uint64_t full[kStages];
  unsigned char* const stages = channels_mma_stages;
  unsigned char* const outs = stages + kStages * kStageBytes;

  const int chunk = blockIdx.x % a.chunks, range = blockIdx.x / a.chunks;
  const int channel = chunk * kChannels;
  const int begin = range * a.per, end = min(begin + a.per, a.total);
  const int rows_above = KH > 1 && begin % a.blocks_y != 0;  // a stage of the rows above the range
  const int steps = rows_above + end - begin;
  const int late = KH - 1 - int(a.p.place.pad_y);

  // Zeros behind each stage's rows.
  constexpr int kZeros = t.kSlots * t.pixel_bytes() / 4;
  for (int i = threadIdx.x; i < kStages * kZeros; i += t.threads())
    reinterpret_cast<unsigned*>(stages + i / kZeros * kStageBytes + kRows * t.row_bytes())[i % kZeros] = 0;
  if (threadIdx.x < kStages) tma::barrier_init(&full[threadIdx.x]);
  __syncthreads();

  struct Step {
    int block, n, x;
  };
  const auto step_of = [&](int step) {
    const int index = begin - rows_above + step, unit = index / a.blocks_y, group = unit / a.segments;
    return Step{index - unit * a.blocks_y, group * t.images(), (unit - group * a.segments) * t.width()};
  };
  const auto bring = [&](int step) {
    unsigned char* const stage = stages + step % kStages * kStageBytes;
    uint64_t* const barrier = &full[step % kStages];
    const Step s = step_of(step);
    const int x = s.x - int(a.p.place.pad_x), y = s.block * kRows;
    if (rows_above && step == 0) {
      constexpr int skipped = kRows - (KH - 1);
      tma::barrier_expect(barrier, (KH - 1) * t.row_bytes());
      tma::load_box(stage + skipped * t.row_bytes(), &above, barrier, channel, x, s.n, y + skipped);
    } else {
      tma::barrier_expect(barrier, kRows * t.row_bytes());
      tma::load_box(stage, &in, barrier, channel, x, s.n, y);
    }
  };
  if (threadIdx.x == 0)
    for (int step = 0; step < kStages && step < steps; ++step) bring(step);

  Warp<T, Tile, kind> warp;
  warp.start(a.p, channel, a.zero);

  int buffer = 0;
  const auto next = [](int buffer) { return buffer == ChannelsMmaTile::kOutBuffers - 1 ? 0 : buffer + 1; };
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const unsigned stage = shared_address(stages) + step % kStages * kStageBytes;
    const Step s = step_of(step);
    unsigned char *const rows = outs + buffer * kOutBytes, *const last_rows = outs + next(buffer) * kOutBytes;
    const bool stores = !rows_above || step > 0;
    const OutPlace at{s.n, s.x, s.block * kRows - late};
    // Output rows that no input row finishes: a block behind the image's last one.
    const bool more = KH > 1 && stores && s.block == a.blocks_y - 1 && at.y + kRows < a.p.out.h;
    tma::barrier_wait(&full[step % kStages], step / kStages & 1);
    if (!stores) {
      if constexpr (KH > 1) warp.template rows<kRows - (KH - 1), false>(stage, 0);
    } else {
      if (KH > 1 && s.block == 0) warp.clear();
      warp.template rows<0, true>(stage, shared_address(rows));
      if (more) {
        // Where an image is one block, every step fills two buffers: this one is still read by the step before.
        if (a.blocks_y == 1) {
          if (threadIdx.x == 0) tma::store_wait_read();
          __syncthreads();
        }
        warp.last_rows(shared_address(last_rows));
      }
      if (warp.asks_again()) {
        __syncwarp();
        const int four = threadIdx.x / 32, first = channel + 4 * four;
        sum_again<T, Tile, kind>(a.p, rows, at, first, four, warp.wild);
        if (more) sum_again<T, Tile, kind>(a.p, last_rows, {at.n, at.x, at.y + kRows}, first, four, warp.wild);
      }
    }
    tma::fence_before_copy();
    if (threadIdx.x == 0) tma::store_wait_read();
    __syncthreads();
    if (threadIdx.x == 0) {
      if (step + kStages < steps) bring(step + kStages);
      if (stores) {
        if (at.y >= 0) tma::store_box(&out, rows, channel, at.x, at.n, at.y);
        else tma::store_box(&first_out, rows - at.y * t.out_row_bytes(), channel, at.x, at.n, 0);
        if (more) tma::store_box(&out, last_rows, channel, at.x, at.n, at.y + kRows);
        tma::store_commit();
      }
    }
    if (stores) buffer = next(buffer);
    if (more) buffer = next(buffer);
  }
  if (threadIdx.x == 0) tma::store_wait();
#endif
}

}  // namespace torch_conv::depthwise
