// CHANNELS_MMA: channels_last images on sparse tensor cores, with the weights as the sparse operand.
//
// clang-format off
//     slots of a tile     0 1 2 3 4 5 6 7 8 9 .. 15          A tile is 7 outputs of a row. Its 16 slots are the
//     pixels (c0, c1)     # # # # # # # # # # .. #           pixels of their footprint. A slot is a pair of channels,
//     output 0, window 7  w w w w w w w                      which is a 32-bit word of memory.
//     output 1              w w w w w w w
//     ...                                                    2 pixels are 4 numbers. An output of channel c0 uses the
//     output 6                          w w w w w w w        first and third, an output of c1 the second and fourth:
//                                                            the row is 2:4 sparse.
//     sums (7 + 1 outputs x 2 channels, 8 columns) += weights of a window row (16 x 32, sparse) * pixels (32, 8 columns)
//
//     A stage: 7 input rows of 16 or 32 channels. Its 8          An input row adds to the KH output rows over it: it
//     columns are tiles of as many images as fit.                starts one and finishes one.
//     +----+----+----+----+----+----+----+----+                  Their sums are in registers, numbered by the row
//     |    |    |    |    |    |    |    |    | 7 rows           modulo 7, so that nothing moves while a warp goes down
//     +----+----+----+----+----+----+----+----+                  the rows of its two pairs of channels.
// clang-format on
//
// Bulk tensor copies load the rows, with zeros for the padding, and store finished rows from shared memory. Two kinds
// of input are read twice: KH - 1 rows above a range of rows that starts inside an image, and KW - 1 columns between
// the segments of wide images.
//
// Bytes an output: 2 read, 2 written; 2 KH KW flops. One mma makes 7 outputs of 2 channels in 8 columns for one row of
// the window. An input row and pair takes KH mma, 4 loads and 2 stores of shared memory a warp. Slot 15 is outside all
// footprints: it holds 1 in place of its pixel, and its weight is the bias.
//
// Warps wait for barriers of stages and of buffers of finished rows, not for the ends of all steps. A warp that is
// ahead takes the next stage while others still write.
//
// Slots outside an output's window have weight 0, so that one Inf or NaN changes a whole tile. The eighth output of a
// tile has no weights: its sum is NaN if a slot's pixel is not finite, else 0. If it is NaN, the warp computes the
// outputs of these rows that are NaN again, one tap after the other.
#pragma once

#include "kernels/depthwise/channels_mma/warp.cuh"

namespace torch_conv::depthwise {

template <typename T, ChannelsMmaPolicy tile, Activation kind>
__global__ void __launch_bounds__(tile.channels * 8, tile.resident)
    depthwise_channels_mma(const __grid_constant__ ChannelsMmaArgs a, const __grid_constant__ TensorMap in,
                           const __grid_constant__ TensorMap above, const __grid_constant__ TensorMap out,
                           const __grid_constant__ TensorMap first_out) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using namespace channels_mma;
  constexpr ChannelsMmaPolicy t = tile;
  constexpr int KH = t.kh, kChannels = t.channels, kStages = t.stages;
  constexpr int kRows = t.rows(), kStageBytes = t.stage_bytes(), kOutBytes = t.out_bytes();
  constexpr int kBuffers = ChannelsMmaPolicy::kOutBuffers;
  extern __shared__ __align__(1024) unsigned char channels_mma_stages[];
  // Barriers. `full`: the box of a stage has arrived. `done`: all warps have read the stage and written their rows.
  // `free`: the copy out of a buffer has read it.
  __shared__ uint64_t full[kStages], done[kStages], free[kBuffers];
  unsigned char* const stages = channels_mma_stages;
  unsigned char* const outs = stages + kStages * kStageBytes;

  const int chunk = unsigned(blockIdx.x) % unsigned(a.chunks), range = unsigned(blockIdx.x) / unsigned(a.chunks);
  const int channel = chunk * kChannels;
  const int begin = range * a.each, end = min(begin + a.each, a.total),
            begin_block = unsigned(begin) % unsigned(a.blocks_y);
  const int rows_above = KH > 1 && begin_block > 0;  // a stage of the rows above the range
  const int lag = KH - 1 - int(a.p.place.pad_y);

  Warp<T, tile, kind> warp;
  typename Warp<T, tile, kind>::Staged staged;  // these loads run while thread 0 issues the first copies
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
  // State of thread 0, in shared memory because it would take a register of all threads.
  __shared__ struct {
    Step to_load, to_store;
    volatile int steps;  // to load; all lanes would read a plain one, which racecheck reports as a race
    int storing;         // the first buffer that a copy may still read
  } issuer;
  // Called by thread 0.
  const auto load_stage = [&](int stage, bool only_above) {
    if (issuer.steps == 0) return;
    issuer.steps = issuer.steps - 1;
    Step step = issuer.to_load;
    unsigned char* const to = stages + stage * kStageBytes;
    const int x = step.x - int(a.p.place.pad_x), y = step.block * kRows;
    if (only_above) {
      constexpr int kSkipped = kRows - (KH - 1);
      tma::barrier_expect(&full[stage], (KH - 1) * t.row_bytes());
      tma::load_box(to + kSkipped * t.row_bytes(), &above, &full[stage], channel, x, step.n, y + kSkipped);
    } else {
      tma::barrier_expect(&full[stage], kRows * t.row_bytes());
      tma::load_box(to, &in, &full[stage], channel, x, step.n, y);
    }
    advance(step);
    issuer.to_load = step;
  };
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < kStages; ++i) {
      tma::barrier_init(&full[i]);
      tma::barrier_init(&done[i], t.threads() / 32 * kWarpArrivals);
    }
#pragma unroll
    for (int i = 0; i < kBuffers; ++i) tma::barrier_init(&free[i]);
    issuer.to_store = issuer.to_load = step_at(begin);
    issuer.to_load.block -= rows_above;
    issuer.steps = rows_above + end - begin, issuer.storing = 0;
#pragma unroll 1
    for (int i = 0; i < kStages; ++i) load_stage(i, rows_above && i == 0);
  }
  // Zeros behind each stage's rows.
  constexpr int kZeros = t.kSlots * t.pixel_bytes() / 16;
#pragma unroll
  for (int first = 0; first < kStages * kZeros; first += t.threads()) {
    const int i = first + threadIdx.x;
    if (i < kStages * kZeros)
      reinterpret_cast<uint4*>(stages + i / kZeros * kStageBytes + kRows * t.row_bytes())[i % kZeros] = uint4{};
  }
  // The buffers, which hold no rows yet, pass the weights from lane to lane.
  const bool not_finite = staged.store(outs);
  warp.weights_not_finite = __syncthreads_or(not_finite);
  warp.start(outs, a.zero);
  __syncthreads();

  // The first warp waits until all warps have done a step. Then its first thread issues the copy of the next box into
  // the stage, and the copies of the rows out of their buffers. The other warps take full stages and free buffers
  // meanwhile. No barrier is two phases ahead of a thread that waits for it: each next phase needs the `done` of all
  // warps.
  const bool issues = threadIdx.x < 32;
  int turn = 0, fill = 0;  // the next stage and buffer, counted twice around: the second time with the other phase
  const auto next = [](int buffer) { return buffer == kBuffers - 1 ? 0 : buffer + 1; };
  const auto claim = [&] {
    const int phase = fill >= kBuffers, buffer = fill - phase * kBuffers;
    tma::barrier_wait(&free[buffer], phase ^ 1);
    fill = fill == 2 * kBuffers - 1 ? 0 : fill + 1;
    return buffer;
  };
  const auto finish_step = [&](auto store) {
    const int phase = turn >= kStages, stage = turn - phase * kStages;
    tma::warp_arrive(&done[stage]);
    if (issues) {
      tma::barrier_wait(&done[stage], phase);
      if (threadIdx.x == 0) {
        load_stage(stage, false);
        store();
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
      // After the last block of an image `more` output rows are left, which no input row finishes.
      const int y = block * kRows - lag;
      const bool more = KH > 1 && block == a.blocks_y - 1 && y + kRows < int(a.p.out.h);
      const int phase = turn >= kStages, stage = turn - phase * kStages;
      tma::barrier_wait(&full[stage], phase);
      const int buffer = claim();
      unsigned char *const rows = outs + buffer * kOutBytes, *const last_rows = outs + next(buffer) * kOutBytes;
      warp.template rows<0, true>(shared_address(stages) + stage * kStageBytes, shared_address(rows));
      // The copies of earlier steps have read their buffers, which become free before `more` claims a second buffer. If
      // an image is one block, every step fills two of the three buffers, so that only the buffers of the last step are
      // left.
      if (issues) {
        if (threadIdx.x == 0) {
          tma::store_wait_read();
          int storing = issuer.storing;
          for (; storing != buffer; storing = next(storing)) tma::barrier_arrive(&free[storing]);
          issuer.storing = storing;
        }
        __syncwarp();
      }
      if (more) {
        claim();
        warp.last_rows(shared_address(last_rows));
      }
      if (warp.needs_recompute()) {
        __syncwarp();
        const int four = threadIdx.x / 32, first = channel + 4 * four;
        const Step s = step_at(index);
        recompute<T, tile, kind>(a.p, rows, {s.n, s.x, y}, first, four, warp.weights_not_finite);
        if (more) recompute<T, tile, kind>(a.p, last_rows, {s.n, s.x, y + kRows}, first, four, warp.weights_not_finite);
      }
      tma::fence_before_copy();
      finish_step([&] {
        Step s = issuer.to_store;
        if (y >= 0) tma::store_box(&out, rows, channel, s.x, s.n, y);
        else tma::store_box(&first_out, rows - y * t.out_row_bytes(), channel, s.x, s.n, 0);
        if (more) tma::store_box(&out, last_rows, channel, s.x, s.n, y + kRows);
        tma::store_commit();
        advance(s);
        issuer.to_store = s;
      });
    }
  }
  if (threadIdx.x == 0) tma::store_wait();
#endif
}

}  // namespace torch_conv::depthwise
