// Box sums of floats in the kernel family's order (kernels/box/order.h), fast: a block streams down a strip of 1024
// columns, 8 rows of outputs at a time. One half of its warps adds up columns, the other half rows.
//
//              x0 - pad_x - shift                tile_w outputs, kw - 1 halo columns
//              +--------------------------------------------------+
//     leaving  |  8 rows: suffix sums                              |  read again (L2), or kept in registers (kh <= 16)
//              |  rest, blocks of 8 rows: one chain                |  rests and blocks are in a ring in shared memory
//     entering |  8 rows: prefix sums, and the newest block        |  asynchronous copies, stages ahead
//              +--------------------------------------------------+
//              | chunk 0 | chunk 1 | ...                  | 31 |      a row of V: 32 chunks of 32 columns, padded by 4
//
// A thread of a column warp owns 4 columns. It writes V of 8 rows into the stage of the entering rows; for 16-bit
// floats into a separate stage.
//
// A row warp takes one of the 8 rows; lane i adds up the outputs of chunk i. For kw <= 32 a lane needs no other lane:
// it reads V of its chunk and of the kw - 1 columns behind it. Wider windows continue from s_32. For kw < 64 the
// neighbour lane holds the other half. Beyond, lanes own columns 32 apart, so that both halves of a window are in one
// lane.
//
// Unaligned rows of 16 bits are copied by a column warp's lanes together, as the vectors of 16 bytes that hold the
// warp's columns (unaligned.cuh). For unaligned float32 rows a thread owns every 32nd column (spread.cuh). Outputs move
// by up to 3 columns, so that stores are aligned vectors.
//
// Tiles of narrow planes share a strip, a subtile of columns each. So do the channels of (H, W, C) images: their rows
// are added up as they are in memory, and the sums are divided into a subtile for each channel.
//
// kPeers: the image is a shard of one that is cut along h. Batches of 8 of its own rows are read as without kPeers;
// other rows are read one by one from the shard that holds them.
//
// Barriers in shared memory: full[stage], one arrival per column warp that has columns; empty[stage], one per row warp.
//
// Traffic: one read from device memory while the windows of all blocks fit in L2, one write; two reads of L2 from kh =
// 17 on. Additions an output: 5 + (kh - 9) / 64 down the columns, about 10 along the rows.
#pragma once

#include "kernels/box/strips/columns.cuh"
#include "kernels/box/strips/rows.cuh"

namespace torch_conv::box {

template <typename T, typename Out, StripPolicy kTraits, bool kPeers = false>
__global__ void __launch_bounds__(kStripThreads) box_strips(const __grid_constant__ StripArgs a) {
  constexpr int kSubtiles = kTraits.subtiles, kV = v_stages(sizeof(T), kChannels<kSubtiles>, kTraits.stages);
  static_assert(2 * kV * sizeof(uint64_t) <= kBarrierBytes);
  extern __shared__ __align__(128) unsigned char shared[];
  const Barriers barriers = Barriers::at(shared + kV * kStageBytes, kV);
  if (threadIdx.x == 0) barriers.init(kV, a.lanes / 32, kRowWarps);
  const Strip<kSubtiles> strip(a, shared + kV * kStageBytes + kBarrierBytes);
  strip.fill(a);
  __syncthreads();
  if (int(threadIdx.x) < a.lanes) column_warp<T, kTraits, kPeers>(a, strip, barriers, shared);
  else if (threadIdx.x >= 32 * kColumnWarps) RowSums<T, Out, kTraits>{a, strip}.add(barriers, shared);
}

}  // namespace torch_conv::box
