// STRIPS: strips, their parts of shared memory, and parameters.
#pragma once

#include "core/peer_rows.h"
#include "kernels/box/shared/finish.h"

namespace torch_conv::box {

constexpr int kColumnWarps = 8;  // 4 columns a thread
constexpr int kRowWarps = kGroup;
constexpr int kStripThreads = 32 * (kColumnWarps + kRowWarps);
constexpr int kStripColumns = 128 * kColumnWarps;

// A row of column sums in shared memory: a chunk of 32 for every lane, 4 floats apart, so that lanes read theirs
// without bank conflicts.
constexpr int kChunkPitch = 36;
constexpr int kRowPitch = 32 * kChunkPitch;
constexpr int kStageBytes = kGroup * kRowPitch * 4;
constexpr int kBarrierBytes = 128;

// The Subtile of every neighbouring tile in shared memory, and an empty one behind them.
constexpr int kMostSubtiles = 64;
constexpr int kSubtileBytes = 32;
constexpr int subtile_bytes(int subtiles) { return (subtiles + 1) * kSubtileBytes; }

// Planar float32 rows are summed in place. Sums of 16-bit rows, and of HWC rows, which are divided into a subtile a
// channel, have two separate stages.
constexpr bool sums_in_place(int element_bytes, int channels) { return element_bytes == 4 && channels == 1; }
constexpr int v_stages(int element_bytes, int channels, int stages) {
  return sums_in_place(element_bytes, channels) ? stages : 2;
}

// Bytes of an entering row that a column warp keeps: 4 elements a thread. Unaligned rows of 16-bit elements keep
// vectors of 16 bytes around the warp's columns. In neighbouring tiles they keep each thread's words of 4 bytes.
constexpr int warp_row_bytes(int element_bytes, bool vectors, bool several_tiles) {
  if (element_bytes == 4 || vectors) return 32 * 4 * element_bytes;
  return several_tiles ? 32 * 16 : 32 * 4 * element_bytes + 16;
}

// True: each warp with columns keeps its rows and rings in one part of shared memory. False: a row has space for all 8
// warps, though fewer may have columns. With parts HWC images by float16 31x31 spill 24 bytes on sm_90, without 8.
constexpr bool warps_have_parts(int element_bytes, int channels) {
  return !sums_in_place(element_bytes, channels) && channels == 1;
}

// Batches of entering rows that are being copied. With one stage more column warps need not wait for row warps.
constexpr int batches_ahead(int stages) { return stages > 2 ? stages - 2 : 1; }

// The storage of the windows' upper rows.
enum class Above {
  chain,   // kh < 9: the last rows are in registers
  kept,    // kh <= 16: as well
  ring,    // leaving rows are read again; rests wait in a ring
  reread,  // ... rests are the next leaving rows' first ones
};

// A kernel's template arguments besides its dtypes.
struct StripPolicy {
  Above above;
  int high;       // rows of a window, or of a rest (order.h)
  int wide;       // columns of a window
  int shift;      // StripArgs::shift of planes; 0 of HWC images
  int stages;     // batches of entering rows in shared memory
  int subtiles;   // 1: a strip is one tile; 0: StripArgs::subtiles neighbouring tiles; more: the channels of a tile
  bool vectors;   // rows start on whole vectors of 4 elements
  bool policies;  // loads and stores carry cache policies for L2
  bool counts;    // the border needs the number of a window's pixels inside the image
};

struct StripArgs {
  const void* in;
  void* out;
  int64_t in_stride_n, in_stride_c, in_stride_h;
  int64_t out_stride_n, out_stride_c, out_stride_h;
  int planes, channels;
  // The columns of a strip are divided into subtiles of `pitch` columns: neighbouring tiles, or channels of pixels.
  // quad * subtile_of_quad >> 20 is the subtile of 4 columns.
  int subtiles, pitch, subtile_of_quad;
  int in_h, in_w, out_h, out_w;
  int kh, kw, pad_y, pad_x;
  int shift;  // elements of a strip before the first window, so that it starts on whole vectors
  int tile_w, tile_h, tiles, segments;
  int phase;               // rows of the first group before the first output
  int blocks;              // of 8 rows, between the first and the last 8 rows of a window
  int lanes;               // threads with columns, of whole warps: columns of the rings
  float area_hi, area_lo;  // of a mean; of a sum 1 and the smallest number: its bits stay
  double outside;
  Border border;
  Finish finish;
  bool aligned_out;  // rows start on whole vectors; else columns go one by one
  // A window's rows inside are counted among the counted_h of all shards at hand; output 0's window begins
  // counted_pad_y before the first of those.
  int counted_pad_y, counted_h;
  PeerRows peers;
};

}  // namespace torch_conv::box
