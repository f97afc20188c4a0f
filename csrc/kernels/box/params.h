// What the host and the kernels of this family agree on: the shapes of blocks, and the kernels' parameters.
#pragma once

#include "core/neighbours.h"
#include "core/problem.h"
#include "kernels/box/order.h"

namespace torch_conv::box {

// How a window sum becomes an output.
enum class Finish : int8_t {
  scale,     // sum * scale
  value,     // (sum + value for every pixel outside) * scale
  mean,      // sum / number of pixels inside
  interior,  // sum * scale where the window fits, else 0
};

// ---- GROUPS: sums of floats in the fixed order --------------------------------------------------------------------

constexpr int kGroupThreads = 32 * kGroup;  // a warp for each row

struct GroupArgs {
  Image in, out;
  int64_t work;  // blocks' worth of work over all planes
  int kh, kw, pad_y, pad_x;
  int tile_w, tiles, groups;
  int phase;  // rows of the first group before the first output
  bool mean, far_h;
  double outside;
  Reciprocal<double> area;
  Border border;
  Finish finish;
};

// ---- STRIPS: the same, streaming down strips of 1024 columns --------------------------------------------------------

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

// What blocks note of tiles side by side (Subtile), and of none behind them.
constexpr int kMostSubtiles = 64;
constexpr int kSubtileBytes = 32;
constexpr int subtile_bytes(int subtiles) { return (subtiles + 1) * kSubtileBytes; }

// Planar float32 rows are summed where they came in. The sums of 16-bit ones, and those of pixels of several channels,
// which part into a subtile for each, have two stages of their own.
constexpr bool sums_in_place(int element_bytes, int channels) { return element_bytes == 4 && channels == 1; }
constexpr int v_stages(int element_bytes, int channels, int stages) {
  return sums_in_place(element_bytes, channels) ? stages : 2;
}

// What a column warp keeps of a row that comes: 4 elements for each thread. Of 16-bit ones that start anywhere the
// vectors of 16 bytes that the warp's columns lie in; of tiles side by side the words of 4 bytes, for each thread its
// own.
constexpr int warp_row_bytes(int element_bytes, bool vectors, bool side_by_side) {
  if (element_bytes == 4 || vectors) return 32 * 4 * element_bytes;
  return side_by_side ? 32 * 16 : 32 * 4 * element_bytes + 16;
}

// True: a column warp keeps such rows and its rings in a part of shared memory of its own, and there are as many parts
// as warps with columns. False: rows have room for all 8 warps side by side, though fewer may have columns.
// (HWC images: parts cost registers, of float16 31x31 on sm_90 24 bytes of them are spilled instead of 8.)
constexpr bool warps_have_parts(int element_bytes, int channels) {
  return !sums_in_place(element_bytes, channels) && channels == 1;
}

// Batches of entering rows that are on their way. With a stage more than that in hand column warps need not wait for
// row warps.
constexpr int batches_ahead(int stages) { return stages > 2 ? stages - 2 : 1; }

// Where the upper rows of the windows come from.
enum class Above {
  chain,   // kh < 9: the last rows are in registers
  kept,    // kh <= 16: as well
  ring,    // leaving rows are read again; rests wait in a ring
  reread,  // ... rests are the next leaving rows' first ones
};

// A kernel's template arguments besides its dtypes.
struct StripTraits {
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
  int lanes;               // threads with columns, of whole warps: places in the rings
  float area_hi, area_lo;  // of a mean; of a sum 1 and the smallest number: its bits stay
  double outside;
  Border border;
  Finish finish;
  bool aligned_out;  // rows start on whole vectors; else columns go one by one
  // A window's rows inside are counted among the counted_h of all shards at hand; output 0's window begins
  // counted_pad_y before the first of those.
  int counted_pad_y, counted_h;
  Neighbours peers;
};

// ---- BYTES: sums of bytes, streaming down strips of 1024 columns ---------------------------------------------------

constexpr int kByteColumnWarps = 4;  // 8 columns a thread
constexpr int kByteRows = 8;         // of a batch, a warp for each
constexpr int kByteThreads = 32 * (kByteColumnWarps + kByteRows);
constexpr int kByteColumns = 256 * kByteColumnWarps;
// Of a multiprocessor. H200, k = 15, 4096^2 and 8192^2: 19.4 and 57.6 us; three of 53 registers a thread, which read
// fewer rows ahead: 29.8 and 101.8.
constexpr int kByteBlocks = 2;
// Batches of column sums in hand. Two, three and four take the same time (H200, 4096^2 and 8192^2, k = 5 to 200: within
// 1 %): column warps are the slower ones and do not wait for memory.
constexpr int kByteStages = 3;

// A row of column sums in shared memory: a chunk of 32 of 16 bits for every lane, 16 bytes apart, so that lanes read
// theirs, and column warps write them, without bank conflicts.
constexpr int kByteChunkPitch = 80;
constexpr int kByteRowPitch = 32 * kByteChunkPitch;
constexpr int kByteStageBytes = kByteRows * kByteRowPitch;
constexpr int kByteStripBytes = 64;  // the block's strip, behind the barriers of all stages
constexpr int kByteSharedBytes = kByteStages * (kByteStageBytes + 16) + kByteStripBytes;

// How a sum becomes a byte. A sum below 2^24 is also the bits of the float sum * 2^-149: one multiply-add by 2^127 /
// area to 3, whose unit is 2^-22, rounds it to a whole number of areas. The reciprocal must be so exact that no tie
// lies between the product and the quotient: up to 2^15 pixels it is. Beyond that what is rounded lies between -128 and
// 128 areas.
enum class Rounding : int8_t {
  clamp,         // the sum itself, at most 255
  once,          // no mean lies half way between two numbers, or the reciprocal is exact
  twice,         // by reciprocals from below and above: at ties they differ, and the even one is taken
  once_centred,  // the same of sum - 128 * area
  twice_centred,
};
constexpr bool is_centred(Rounding r) { return r == Rounding::once_centred || r == Rounding::twice_centred; }
constexpr bool takes_two(Rounding r) { return r == Rounding::twice || r == Rounding::twice_centred; }

// A kernel's template arguments.
struct ByteTraits {
  int wide;      // columns of a window
  int channels;  // interleaved; 1: planes
  int shift;     // outputs before a lane's own that its stores begin with, if aligned_out
  Rounding rounding;
  Finish finish;
  bool aligned_in;   // rows of the image start on 8 bytes
  bool aligned_out;  // rows of the result start on 16 bytes
};

struct ByteArgs {
  const uint8_t* in;
  uint8_t* out;
  int64_t in_stride_n, in_stride_c, in_stride_h;
  int64_t out_stride_n, out_stride_c, out_stride_h;
  int planes;                    // of an image
  int in_h, in_w, out_h, out_w;  // columns: one a pixel, or one a channel of every pixel
  int kh, kw, pad_y, pad_x;      // of pixels
  int lead;                      // the strip's column that ends the first output's window
  int tile_w, tile_h, tiles, segments;
  int outside;      // the pixels that stand outside
  int safe_rows;    // of which whole words may be read, also where the row ends within
  float low, high;  // 1 / area, times 2^127 unless centred
  Border border;
  int counted_pad_y, counted_h;  // as in StripArgs
  Neighbours peers;
};

// ---- STREAMING and PLAIN

// H200, float32 k=200 at 4096^2, best cut of each (rows, stages): 4,2 87 us; 4,3 90; 8,2 94; 2,4 142; 2,3 152.
constexpr int kChunkRows = 4;     // output rows between two barriers
constexpr int kStages = 2;        // chunks in shared memory: one being summed, the rest on their way
constexpr int kMaxThreads = 512;  // 128 registers a thread

// Image columns whose sums one thread keeps: one copy of 4 to 16 bytes a row. 8 columns of small elements leave too few
// warps: uint8, k = 200, 4096^2 took 106 us against 78.
constexpr int columns_per_thread(int element_bytes) { return element_bytes == 8 ? 2 : 4; }

// The shared memory of a streaming block, in this order: the ring of entering and leaving rows, two buffers of prefix
// rows (so that one barrier a chunk is enough) and the totals of every warp's columns in them.
struct StreamingShape {
  int threads;
  int columns;  // tile and halo
  int ring_bytes, prefix_bytes, totals_bytes;

  constexpr int warps() const { return threads / 32; }
  constexpr int shared_bytes() const { return ring_bytes + prefix_bytes + totals_bytes; }
};

constexpr StreamingShape streaming_shape(int threads, int element_bytes, int sum_bytes, int chunk_rows = kChunkRows,
                                         int stages = kStages) {
  StreamingShape s{};
  s.threads = threads;
  s.columns = threads * columns_per_thread(element_bytes);
  s.ring_bytes = stages * 2 * chunk_rows * s.columns * element_bytes;
  s.prefix_bytes = 2 * (chunk_rows * s.columns + 32 * columns_per_thread(element_bytes)) * sum_bytes;
  s.totals_bytes = 2 * chunk_rows * s.warps() * sum_bytes;
  return s;
}

constexpr int kPlainThreads = 256;

struct Args {
  const void* in;
  void* out;
  int64_t in_stride_n, in_stride_c, in_stride_h, in_stride_w;
  int64_t out_stride_n, out_stride_c, out_stride_h, out_stride_w;
  int64_t planes, channels, work;  // work: blocks' worth of work over all planes
  int in_h, in_w, out_h, out_w;
  int kh, kw, pad_y, pad_x;
  int tile_w, strip_h, tiles, strips;
  bool carry;      // shared memory has a buffer to carry column sums over to the columns that repeat them
  int pack_pitch;  // bytes between rows that can be copied as aligned vectors, 0 if they cannot
  bool out_packs;  // outputs of dense rows can be stored as aligned vectors
  double scale, value;
  Border border;
  Finish finish;
  Dtype out_dtype;
};

// ---- DEPTH -------------------------------------------------------------------------------------------------------

constexpr int kDepthThreads = 128;

// Outputs of a thread whose planes are on their way together, and blocks per multiprocessor (the register cap). float32
// sums on one NVIDIA H200, % of copy: 9 planes at 512^3, 16 outputs 92, 8 outputs 82-85; uint8 means, which cost more
// arithmetic, 9 planes at 256^3: 16 outputs 35, 8 outputs 47.
constexpr int depth_batch(bool integer_output) { return integer_output ? 8 : 16; }
constexpr int depth_blocks(bool integer_output) { return integer_output ? 4 : 2; }

// The same of floats: threads that add up groups of planes, and those that also keep a window's planes in shared
// memory.
constexpr int kDepthGroupBlocks = 4;
constexpr int kDepthRingBlocks = 2;

struct DepthArgs {
  const void* sums;
  Image out;
  int64_t in_n, in_c, in_d, in_h, in_w;  // strides; w: of neighbours in a run
  int64_t out_w;
  int64_t length, interleaved, columns;  // columns: threads of a plane
  unsigned column_blocks, chunks, channels;
  int d, w;              // of the sums
  int plane_h, plane_w;  // of the volume that was summed
  int kd, kh, kw, pad_z, pad_y, pad_x, chunk;
  double outside, scale, area;
  Border border;
  Finish finish;
  bool whole, exact;  // outputs are integers; their sums are whole numbers below 2^53
  // Of floats: where chunk 0 stands in a group of 8 planes, and 1 / voxels where means are asked for.
  int phase;
  Reciprocal<double> reciprocal;
  bool mean;
};

}  // namespace torch_conv::box
