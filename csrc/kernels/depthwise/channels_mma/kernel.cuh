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
// of the window: KH products an input row and pair, 4 loads and 2 stores of shared memory a warp. Slot 15, which no
// window reaches, holds 1 in place of its pixel: its weight is the bias.
//
// Warps meet at barriers of stages and of buffers of finished rows, not at all steps' ends: one that is ahead goes on
// with the next stage while others still write.
//
// Slots outside an output's window have weight 0, so Inf and NaN spread over a tile. The eighth outputs of tiles have
// no weights at all: their sums are NaN if a slot's pixel is not finite, else 0. Then the rows are looked through, and
// what is NaN there is summed again, one tap after the other.
#pragma once

#include "kernels/depthwise/channels_mma/warp.cuh"

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
  constexpr int kBuffers = ChannelsMmaTile::kOutBuffers;
  extern __shared__ __align__(1024) unsigned char channels_mma_stages[];
  // Of a stage: its box has arrived (`full`), all warps have read it and written their rows (`done`). Of a buffer: its
  // rows have left shared memory (`left`).
  __shared__ uint64_t full[kStages], done[kStages], left[kBuffers];
  unsigned char* const stages = channels_mma_stages;
  unsigned char* const outs = stages + kStages * kStageBytes;

  const int chunk = unsigned(blockIdx.x) % unsigned(a.chunks), range = unsigned(blockIdx.x) / unsigned(a.chunks);
  const int channel = chunk * kChannels;
  const int begin = range * a.per, end = min(begin + a.per, a.total),
            begin_block = unsigned(begin) % unsigned(a.blocks_y);
  const int rows_above = KH > 1 && begin_block > 0;  // a stage of the rows above the range
  const int late = KH - 1 - int(a.p.place.pad_y);

  Warp<T, Tile, kind> warp;
  typename Warp<T, Tile, kind>::Staged staged;  // on their way while the first boxes set out
  staged.load(a.p, channel);

  struct Step {
    int block, x, n;
  };
  const auto step_at = [&](int index) {
    const unsigned unit = unsigned(index) / unsigned(a.blocks_y), group = unit / unsigned(a.segments);
    return Step{int(index - unit * a.blocks_y), int(unit - group * a.segments) * t.width(), int(group) * t.images()};
  };
  const auto advance = [&](Step& s) {
    if (++s.block < a.blocks_y) return;
    s.block = 0, s.x += t.width();
    if (s.x >= a.segments * t.width()) s.x = 0, s.n += t.images();
  };
  // What only thread 0 needs, which has no registers of its own for it.
  __shared__ struct {
    Step to_bring, to_send;
    volatile int steps;  // to bring; a plain one would be read by all lanes, which racecheck takes for a race
    int leaving;         // the first buffer whose rows are on their way out
  } own;
  // One thread.
  const auto bring = [&](int stage, bool only_above) {
    if (own.steps == 0) return;
    own.steps = own.steps - 1;
    Step step = own.to_bring;
    unsigned char* const to = stages + stage * kStageBytes;
    const int x = step.x - int(a.p.place.pad_x), y = step.block * kRows;
    if (only_above) {
      constexpr int skipped = kRows - (KH - 1);
      tma::barrier_expect(&full[stage], (KH - 1) * t.row_bytes());
      tma::load_box(to + skipped * t.row_bytes(), &above, &full[stage], channel, x, step.n, y + skipped);
    } else {
      tma::barrier_expect(&full[stage], kRows * t.row_bytes());
      tma::load_box(to, &in, &full[stage], channel, x, step.n, y);
    }
    advance(step);
    own.to_bring = step;
  };
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < kStages; ++i) {
      tma::barrier_init(&full[i]);
      tma::barrier_init(&done[i], t.threads() / 32 * kWarpArrivals);
    }
#pragma unroll
    for (int i = 0; i < kBuffers; ++i) tma::barrier_init(&left[i]);
    own.to_send = own.to_bring = step_at(begin);
    own.to_bring.block -= rows_above;
    own.steps = rows_above + end - begin, own.leaving = 0;
#pragma unroll 1
    for (int i = 0; i < kStages; ++i) bring(i, rows_above && i == 0);
  }
  // Zeros behind each stage's rows.
  constexpr int kZeros = t.kSlots * t.pixel_bytes() / 16;
#pragma unroll
  for (int first = 0; first < kStages * kZeros; first += t.threads()) {
    const int i = first + threadIdx.x;
    if (i < kStages * kZeros)
      reinterpret_cast<uint4*>(stages + i / kZeros * kStageBytes + kRows * t.row_bytes())[i % kZeros] = uint4{};
  }
  // Weights pass through the buffers, which no rows have used yet.
  const bool wild = staged.store(outs);
  warp.wild = __syncthreads_or(wild);
  warp.start(outs, a.zero);
  __syncthreads();

  // The first warp also sends: it waits until all have done a step, then its first thread starts the next box into the
  // stage and the rows out of their buffers. The others go on meanwhile, with stages that are full and buffers whose
  // rows have left. No barrier is two phases ahead of anyone who waits for it: each next one needs all warps' `done`.
  const bool sends = threadIdx.x < 32;
  int turn = 0, fill = 0;  // the next stage and buffer, counted twice around: the second time with the other phase
  const auto next = [](int buffer) { return buffer == kBuffers - 1 ? 0 : buffer + 1; };
  const auto claim = [&] {
    const int phase = fill >= kBuffers, buffer = fill - phase * kBuffers;
    tma::barrier_wait(&left[buffer], phase ^ 1);
    fill = fill == 2 * kBuffers - 1 ? 0 : fill + 1;
    return buffer;
  };
  const auto finish_step = [&](auto send) {
    const int phase = turn >= kStages, stage = turn - phase * kStages;
    tma::warp_arrive(&done[stage]);
    if (sends) {
      tma::barrier_wait(&done[stage], phase);
      if (threadIdx.x == 0) {
        bring(stage, false);
        send();
      }
      __syncwarp();
    }
    turn = turn == 2 * kStages - 1 ? 0 : turn + 1;
  };

  if constexpr (KH > 1) {
    if (rows_above) {
      tma::barrier_wait(&full[0], 0);
      warp.template rows<kRows - (KH - 1), false>(shared_address(stages), 0);
      finish_step([] {});
    }
  }
#pragma unroll 1
  for (int index = begin, block = begin_block; index < end; block = 0) {
    if (block == 0) warp.clear();
#pragma unroll 1
    for (; block < a.blocks_y && index < end; ++block, ++index) {
      // Output rows that no input row finishes: a block behind the image's last one.
      const int y = block * kRows - late;
      const bool more = KH > 1 && block == a.blocks_y - 1 && y + kRows < int(a.p.out.h);
      const int phase = turn >= kStages, stage = turn - phase * kStages;
      tma::barrier_wait(&full[stage], phase);
      const int buffer = claim();
      unsigned char *const rows = outs + buffer * kOutBytes, *const last_rows = outs + next(buffer) * kOutBytes;
      warp.template rows<0, true>(shared_address(stages) + stage * kStageBytes, shared_address(rows));
      // What earlier steps sent has left by now. This is said before `more` asks for a second buffer: where an image is
      // one block, every step fills two of three, and the last step's are all that could become free.
      if (sends) {
        if (threadIdx.x == 0) {
          tma::store_wait_read();
          int leaving = own.leaving;
          for (; leaving != buffer; leaving = next(leaving)) tma::barrier_arrive(&left[leaving]);
          own.leaving = leaving;
        }
        __syncwarp();
      }
      if (more) {
        claim();
        warp.last_rows(shared_address(last_rows));
      }
      if (warp.asks_again()) {
        __syncwarp();
        const int four = threadIdx.x / 32, first = channel + 4 * four;
        const Step s = step_at(index);
        sum_again<T, Tile, kind>(a.p, rows, {s.n, s.x, y}, first, four, warp.wild);
        if (more) sum_again<T, Tile, kind>(a.p, last_rows, {s.n, s.x, y + kRows}, first, four, warp.wild);
      }
      tma::fence_before_copy();
      finish_step([&] {
        Step s = own.to_send;
        if (y >= 0) tma::store_box(&out, rows, channel, s.x, s.n, y);
        else tma::store_box(&first_out, rows - y * t.out_row_bytes(), channel, s.x, s.n, 0);
        if (more) tma::store_box(&out, last_rows, channel, s.x, s.n, y + kRows);
        tma::store_commit();
        advance(s);
        own.to_send = s;
      });
    }
  }
  if (threadIdx.x == 0) tma::store_wait();
#endif
}

}  // namespace torch_conv::depthwise
