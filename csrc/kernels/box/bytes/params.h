// BYTES: strips, rounding, and parameters.
#pragma once

#include "core/peer_rows.h"
#include "kernels/box/shared/finish.h"

namespace torch_conv::box {

constexpr int kByteColumnWarps = 4;  // 8 columns a thread
constexpr int kByteRows = 8;         // of a batch, a warp for each
constexpr int kByteThreads = 32 * (kByteColumnWarps + kByteRows);
constexpr int kByteColumns = 256 * kByteColumnWarps;
// Blocks of a multiprocessor. H200, k = 15, 4096^2 and 8192^2: 19.4 and 57.6 us; three of 53 registers a thread, which
// read fewer rows ahead: 29.8 and 101.8.
constexpr int kByteBlocks = 2;
// Batches of column sums in hand. Two, three and four take the same time (H200, 4096^2 and 8192^2, k = 5 to 200: within
// 1 %): column warps are the slower ones and do not wait for memory.
constexpr int kByteStages = 3;

// A row of column sums in shared memory: a chunk of 32 sums of 16 bits for every lane, with 16 bytes between chunks. So
// lanes and column warps access them without bank conflicts.
constexpr int kByteChunkPitch = 80;
constexpr int kByteRowPitch = 32 * kByteChunkPitch;
constexpr int kByteStageBytes = kByteRows * kByteRowPitch;
constexpr int kByteStripBytes = 64;  // the block's strip, behind the barriers of all stages
constexpr int kByteSharedBytes = kByteStages * (kByteStageBytes + 16) + kByteStripBytes;

// The step from a sum to a byte. A sum below 2^24 is also the bits of the float sum * 2^-149: one multiply-add by 2^127
// / area to 3, whose unit is 2^-22, rounds it to a whole number of areas. The reciprocal must be so exact that no tie
// is between the product and the quotient, which holds up to 2^15 pixels. Beyond that the rounded number is between
// -128 and 128 areas.
enum class Rounding : int8_t {
  clamp,         // the sum itself, at most 255
  once,          // no mean is half way between two numbers, or the reciprocal is exact
  twice,         // by reciprocals from below and above: at ties they differ, and the even one is taken
  once_centred,  // the same of sum - 128 * area
  twice_centred,
};
constexpr bool is_centred(Rounding r) { return r == Rounding::once_centred || r == Rounding::twice_centred; }
constexpr bool takes_two(Rounding r) { return r == Rounding::twice || r == Rounding::twice_centred; }

// A kernel's template arguments.
struct BytePolicy {
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
  int outside;      // the value of pixels outside
  int safe_rows;    // of which whole words may be read, also where the row ends within
  float low, high;  // 1 / area, times 2^127 unless centred
  Border border;
  int counted_pad_y, counted_h;  // as in StripArgs
  PeerRows peers;
};

}  // namespace torch_conv::box
