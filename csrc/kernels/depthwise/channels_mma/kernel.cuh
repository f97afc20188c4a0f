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

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

namespace channels_mma {

// A block of rows of a group of images, from column x on.
struct Step {
  int block, x, n;
};

// What the threads of a block share, besides stages and buffers.
template <ChannelsMmaPolicy t>
struct Shared {
  // Barriers. `full`: the box of a stage has arrived. `done`: all warps have read the stage and written their rows.
  // `free`: the copy out of a buffer has read it.
  uint64_t full[t.stages], done[t.stages], free[t.kOutBuffers];
  // State of thread 0, which would take a register of all threads.
  Step to_load, to_store;
  volatile int steps;  // to load; all lanes would read a plain one, which racecheck reports as a race
  int storing;         // the first buffer that a copy may still read
};

struct Maps {
  const TensorMap &in, &above, &out, &first_out;
};

// A block's steps, from `begin` to `end`. Each warp takes full stages and fills free buffers of finished rows.
template <typename T, ChannelsMmaPolicy tile, Activation kind>
struct BlockSteps {
  static constexpr ChannelsMmaPolicy t = tile;
  static constexpr int KH = t.kh, kStages = t.stages, kRows = t.rows(), kBuffers = t.kOutBuffers;
  using ThisWarp = WarpSums<T, tile, kind>;

  const ChannelsMmaArgs& a;
  const Maps maps;
  unsigned char *const stages, *const outs;
  Shared<tile>& s;
  const int channel;
  const int begin, end, begin_block;
  const int rows_above;  // 1 if a stage of the rows above the steps comes first
  const int lag;         // rows from an output row's first input row to the row that finishes it, without the padding
  ThisWarp warp;
  int turn = 0, fill = 0;  // the next stage and buffer, counted twice around: the second time with the other phase

  __device__ __forceinline__ BlockSteps(const ChannelsMmaArgs& args, const Maps& copies, unsigned char* memory,
                                        Shared<tile>& shared)
      : a(args),
        maps(copies),
        stages(memory),
        outs(memory + kStages * t.stage_bytes()),
        s(shared),
        channel(unsigned(blockIdx.x) % unsigned(a.chunks) * t.channels),
        begin(unsigned(blockIdx.x) / unsigned(a.chunks) * a.each),
        end(min(begin + a.each, a.total)),
        begin_block(unsigned(begin) % unsigned(a.blocks_y)),
        rows_above(KH > 1 && begin_block > 0),
        lag(KH - 1 - int(a.p.place.pad_y)) {}

  static constexpr int next(int buffer) { return buffer == kBuffers - 1 ? 0 : buffer + 1; }

  __device__ __forceinline__ Step step_at(int index) const {
    const unsigned unit = unsigned(index) / unsigned(a.blocks_y), group = unit / unsigned(a.segments);
    return Step{int(index - unit * a.blocks_y), int(unit - group * a.segments) * t.width(), int(group) * t.images()};
  }

  __device__ __forceinline__ void advance(Step& step) const {
    if (++step.block < a.blocks_y) return;
    step.block = 0, step.x += t.width();
    if (step.x >= a.segments * t.width()) step.x = 0, step.n += t.images();
  }

  // Called by thread 0.
  __device__ __forceinline__ void load_stage(int stage, bool only_above) {
    if (s.steps == 0) return;
    s.steps = s.steps - 1;
    Step step = s.to_load;
    unsigned char* const to = stages + stage * t.stage_bytes();
    const int x = step.x - int(a.p.place.pad_x), y = step.block * kRows;
    if (only_above) {
      constexpr int kSkipped = kRows - (KH - 1);
      tma::barrier_expect(&s.full[stage], (KH - 1) * t.row_bytes());
      tma::load_box(to + kSkipped * t.row_bytes(), &maps.above, &s.full[stage], channel, x, step.n, y + kSkipped);
    } else {
      tma::barrier_expect(&s.full[stage], kRows * t.row_bytes());
      tma::load_box(to, &maps.in, &s.full[stage], channel, x, step.n, y);
    }
    advance(step);
    s.to_load = step;
  }

  // Initializes the barriers, begins the first loads, and distributes the weights.
  __device__ __forceinline__ void start() {
    typename ThisWarp::Staged staged;  // these loads run while thread 0 issues the first copies
    staged.load(a.p, channel);
    if (threadIdx.x == 0) {
#pragma unroll
      for (int i = 0; i < kStages; ++i) {
        tma::barrier_init(&s.full[i]);
        tma::barrier_init(&s.done[i], t.threads() / 32 * kWarpArrivals);
      }
#pragma unroll
      for (int i = 0; i < kBuffers; ++i) tma::barrier_init(&s.free[i]);
      s.to_store = s.to_load = step_at(begin);
      s.to_load.block -= rows_above;
      s.steps = rows_above + end - begin, s.storing = 0;
#pragma unroll 1
      for (int i = 0; i < kStages; ++i) load_stage(i, rows_above && i == 0);
    }
    // Zeros behind each stage's rows.
    constexpr int kZeros = t.kSlots * t.pixel_bytes() / 16;
#pragma unroll
    for (int first = 0; first < kStages * kZeros; first += t.threads()) {
      const int i = first + threadIdx.x;
      if (i < kStages * kZeros)
        reinterpret_cast<uint4*>(stages + i / kZeros * t.stage_bytes() + kRows * t.row_bytes())[i % kZeros] = uint4{};
    }
    // The buffers, which hold no rows yet, pass the weights from lane to lane.
    const bool not_finite = staged.store(outs);
    warp.weights_not_finite = __syncthreads_or(not_finite);
    warp.start(outs, a.zero);
    __syncthreads();
  }

  // Waits for the next stage, and returns its address.
  __device__ __forceinline__ unsigned take_stage() const {
    const int phase = turn >= kStages, stage = turn - phase * kStages;
    tma::barrier_wait(&s.full[stage], phase);
    return shared_address(stages) + stage * t.stage_bytes();
  }

  // Waits for the next buffer.
  __device__ __forceinline__ int claim() {
    const int phase = fill >= kBuffers, buffer = fill - phase * kBuffers;
    tma::barrier_wait(&s.free[buffer], phase ^ 1);
    fill = fill == 2 * kBuffers - 1 ? 0 : fill + 1;
    return buffer;
  }

  // The first warp waits until all warps have done a step. Then its first thread issues the copy of the next box into
  // the stage, and the copies of the rows out of their buffers. The other warps take full stages and free buffers
  // meanwhile. No barrier is two phases ahead of a thread that waits for it: each next phase needs the `done` of all
  // warps.
  template <typename Store>
  __device__ __forceinline__ void finish_step(const Store& store) {
    const int phase = turn >= kStages, stage = turn - phase * kStages;
    tma::warp_arrive(&s.done[stage]);
    if (threadIdx.x < 32) {
      tma::barrier_wait(&s.done[stage], phase);
      if (threadIdx.x == 0) {
        load_stage(stage, false);
        store();
      }
      __syncwarp();
    }
    turn = turn == 2 * kStages - 1 ? 0 : turn + 1;
  }

  // The copies of earlier steps have read their buffers. Called by the first warp.
  __device__ __forceinline__ void free_buffers(int buffer) {
    if (threadIdx.x == 0) {
      tma::store_wait_read();
      int storing = s.storing;
      for (; storing != buffer; storing = next(storing)) tma::barrier_arrive(&s.free[storing]);
      s.storing = storing;
    }
    __syncwarp();
  }

  // Computes block `block` of the rows of an image.
  __device__ __forceinline__ void step(int index, int block) {
    // After the last block of an image `more` output rows are left, which no input row finishes.
    const int y = block * kRows - lag;
    const bool more = KH > 1 && block == a.blocks_y - 1 && y + kRows < int(a.p.out.h);
    const unsigned stage = take_stage();
    const int buffer = claim();
    unsigned char *const rows = outs + buffer * t.out_bytes(), *const last_rows = outs + next(buffer) * t.out_bytes();
    warp.template rows<0, true>(stage, shared_address(rows));
    // Buffers become free before `more` claims a second one. If an image is one block, every step fills two of the
    // three buffers, so that only the buffers of the last step are left.
    if (threadIdx.x < 32) free_buffers(buffer);
    if (more) {
      claim();
      warp.last_rows(shared_address(last_rows));
    }
    if (warp.needs_recompute()) {
      __syncwarp();
      const int four = threadIdx.x / 32, first = channel + 4 * four;
      const Step at = step_at(index);
      recompute<T, tile, kind>(a.p, rows, {at.n, at.x, y}, first, four, warp.weights_not_finite);
      if (more) recompute<T, tile, kind>(a.p, last_rows, {at.n, at.x, y + kRows}, first, four, warp.weights_not_finite);
    }
    tma::fence_before_copy();
    finish_step([&] {
      Step at = s.to_store;
      if (y >= 0) tma::store_box(&maps.out, rows, channel, at.x, at.n, y);
      else tma::store_box(&maps.first_out, rows - y * t.out_row_bytes(), channel, at.x, at.n, 0);
      if (more) tma::store_box(&maps.out, last_rows, channel, at.x, at.n, y + kRows);
      tma::store_commit();
      advance(at);
      s.to_store = at;
    });
  }

  __device__ __forceinline__ void run() {
    if constexpr (KH > 1) {
      if (rows_above) {
        warp.template rows<kRows - (KH - 1), false>(take_stage(), 0);
        finish_step([] {});
      }
    }
#pragma unroll 1
    for (int index = begin, block = begin_block; index < end; block = 0) {
      if (block == 0) warp.clear();
#pragma unroll 1
      for (; block < a.blocks_y && index < end; ++block, ++index) step(index, block);
    }
    if (threadIdx.x == 0) tma::store_wait();
  }
};

}  // namespace channels_mma

#endif

template <typename T, ChannelsMmaPolicy tile, Activation kind>
__global__ void __launch_bounds__(tile.channels * 8, tile.resident)
    depthwise_channels_mma(const __grid_constant__ ChannelsMmaArgs a, const __grid_constant__ TensorMap in,
                           const __grid_constant__ TensorMap above, const __grid_constant__ TensorMap out,
                           const __grid_constant__ TensorMap first_out) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using namespace channels_mma;
  extern __shared__ __align__(1024) unsigned char channels_mma_stages[];
  __shared__ Shared<tile> shared;
  BlockSteps<T, tile, kind> block(a, {in, above, out, first_out}, channels_mma_stages, shared);
  block.start();
  block.run();
#endif
}

}  // namespace torch_conv::depthwise
