// Box sums of floats in the kernel family's order (kernels/box/order.h), fast: a block streams down a strip of 1024
// columns, 8 rows of outputs at a time. One half of its warps adds up columns, the other half rows.
//
//            x0 - pad_x - shift                tile_w outputs, kw - 1 halo columns
//            +--------------------------------------------------+
//   leaving  |  8 rows: suffix sums                              |  read again (L2), or kept in registers (kh <= 16)
//            |  rest, blocks of 8 rows: one chain                |  rests and blocks stand in a ring in shared memory
//   entering |  8 rows: prefix sums, and the newest block        |  asynchronous copies, stages ahead
//            +--------------------------------------------------+
//   a column warp's thread owns 4 columns: V of 8 rows into the stage that the entering rows came in (of 16-bit floats:
//   into a stage of its own)
//            | chunk 0 | chunk 1 | ...                  | 31 |      a row of V: 32 chunks of 32 columns, padded by 4
//   a row warp takes row r of the 8: lane i adds up the outputs of chunk i, and of kw <= 32 all that they need, by
//   itself: the V of its chunk and of the kw - 1 columns behind it are read again rather than passed on. Wider windows
//   go on with s_32: of kw < 64 the neighbour lane has the rest; else lanes come to own columns 32 apart, so that
//   windows' halves lie in the lane's own registers.
//
// Of rows that start anywhere a column warp's lanes copy those of 16 bits for each other, as the vectors of 16 bytes
// that the warp's columns lie in (unaligned.cuh); of float32 a thread owns every 32nd of them (spread.cuh). Outputs
// move by up to 3 places, so that vectors leave.
//
// Tiles of narrow planes share a strip, a subtile of columns each, as many as a strip holds. So do the
// channels of (H, W, C) images: their rows are added up as they lie, and the sums are divided into a subtile for each
// channel.
//
// kPeers: the image is a shard of one that is cut along h. Batches of 8 rows that lie in it are read as those of an
// image that is alone, others row by row in whichever shard holds them.
//
// Barriers in shared memory: full[stage], one arrival per column warp that has columns; empty[stage], one per row warp.
//
// Traffic: one read from device memory while the windows of all blocks fit in L2, one write; two reads of L2, from
// kh = 17 on. Additions an output: 5 + (kh - 9) / 64 down the columns, about 10 along the rows.
#pragma once

#include "kernels/box/strips/columns.cuh"
#include "kernels/box/strips/rows.cuh"

namespace torch_conv::box {

template <typename T, typename Out, StripTraits kTraits, bool kPeers = false>
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
  else if (threadIdx.x >= 32 * kColumnWarps) row_warp<T, Out, kTraits>(a, strip, barriers, shared);
}

}  // namespace torch_conv::box
