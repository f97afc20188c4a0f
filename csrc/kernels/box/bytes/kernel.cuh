// Box sums and means of bytes: a block streams down a strip of 1024 columns, 8 rows of outputs at a time. A third of
// its warps adds up columns, the others rows.
//
//                 begin      first window    tile_w outputs, kw - 1 halo columns
//                 +--------------------------------------------------+
//     leaving     |  8 rows                                          |  read again, from L1 or L2
//                 |  kh - 8 rows, summed already                     |
//     entering    |  8 rows                                          |
//                 +--------------------------------------------------+
//                 | chunk 0 | chunk 1 | ...                  | 31 |      a row of sums: 32 chunks of 32 sums
//
// A thread of a column warp owns 8 columns: running sums of 16 bits (kh <= 257), two in a register. A row costs two
// byte permutations and one addition of three numbers for two columns.
//
// A row warp takes one of the 8 rows: lane i makes the 32 outputs whose windows end in chunk i. The totals of the
// neighbours' chunks give the sum of the window before those. Each next window adds the column that enters and
// subtracts the one that leaves; DP2A selects a half of a register. One multiply-add divides and rounds (params.h:
// Rounding). Bytes are moved by `shift` so that lanes store whole vectors.
//
// kPeers: the image is a shard of one that is cut along h. Rows of other shards are read one by one from the shard that
// holds them.
//
// Barriers in shared memory: full[stage], one arrival per column warp; empty[stage], one per row warp.
//
// Traffic: one read from device memory while the windows of all blocks fit in L2, one write; two reads of L1 or L2.
// Instructions an output: about 3 down the columns and 7 along the rows; with starts and waits 13 (H200, 8192^2, k =
// 15). Column warps wait for their loads: that case takes 57.6 us, 38.7 without loads, 56.6 without row sums, a
// copy 33.
#pragma once

#include "kernels/box/bytes/columns.cuh"
#include "kernels/box/bytes/rows.cuh"

namespace torch_conv::box {

template <BytePolicy kTraits, bool kPeers = false>
__global__ void __launch_bounds__(kByteThreads, kByteBlocks) box_bytes(const __grid_constant__ ByteArgs a) {
  constexpr Reads kReads = kTraits.aligned_in ? Reads::vectors : Reads::words;
  extern __shared__ __align__(128) unsigned char shared[];
  const Barriers barriers = Barriers::at(shared + kByteStages * kByteStageBytes, kByteStages);
  const ByteStrip strip(a, kTraits.channels);
  // Warps with columns.
  const int column_warps = min((strip.end - strip.begin + 255) / 256, kByteColumnWarps);
  // Row warps have no registers to spare: they read the strip's numbers where they need them.
  static_assert(sizeof(ByteStrip) <= kByteStripBytes);
  ByteStrip& strip_of_rows = *reinterpret_cast<ByteStrip*>(barriers.empty + kByteStages);
  if (threadIdx.x == 0) {
    barriers.init(kByteStages, column_warps, kByteRows);
    strip_of_rows = strip;
  }
  const int thread = threadIdx.x % (32 * kByteColumnWarps), share = threadIdx.x / (32 * kByteColumnWarps);
  const ByteColumns columns(a, strip, strip.begin + 8 * thread, kTraits.channels);
  // Windows wider than the image come to its columns again, anywhere in a vector.
  const bool within = kReads == Reads::vectors && columns.map[0] % 8 > 0;
  const bool is_scattered = __any_sync(0xffffffff, columns.is_scattered || within);
  const auto numbers = NumberedRows<kPeers>::of(a.peers, blockIdx.x / unsigned(a.tiles * a.segments), a.planes);
  const ByteRows<kReads, kPeers> rows{a, strip, columns, numbers};
  const ByteRows<Reads::single_bytes, kPeers> scattered_rows{a, strip, columns, numbers};
  unsigned char* const to = shared + thread / 4 * kByteChunkPitch + thread % 4 * 16;

  uint32_t sums[4] = {};
  if (is_scattered) start_columns(scattered_rows, share, sums);
  else start_columns(rows, share, sums);
  if (share > 0)
    *reinterpret_cast<uint4*>(to + (share - 1) * kByteRowPitch) = uint4{sums[0], sums[1], sums[2], sums[3]};
  __syncthreads();
  if (share > 0) {
    add_rows<kTraits>(a, strip_of_rows, barriers, shared);
    return;
  }
  if (int(threadIdx.x) / 32 >= column_warps) return;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint4 more = *reinterpret_cast<const uint4*>(to + i * kByteRowPitch);
    sums[0] += more.x, sums[1] += more.y, sums[2] += more.z, sums[3] += more.w;
  }
#pragma unroll
  for (int v = 0; v < 8; ++v)
    if (columns.map[v] < 0) sums[v / 2] += uint32_t(a.kh * a.outside) << v % 2 * 16;
  if (is_scattered) add_columns(scattered_rows, barriers, to, sums);
  else add_columns(rows, barriers, to, sums);
}

}  // namespace torch_conv::box
