// LARGE_MMA: the template argument and the parameters of its kernel.
#pragma once

#include "core/problem.h"
#include "core/tile_order.h"

namespace torch_conv::depthwise {

// A kernel is compiled for each tile of a warp.
struct LargeMmaPolicy {
  int rows = 0;                      // output rows of a warp in every strip
  int blocks = 0;                    // of 8 output columns of a warp
  int spans = 0;                     // blocks of 8 input columns that a block of outputs reads
  int lag = 0;                       // the first of these spans is block `lag` of a warp's input blocks
  int pair_stride = 1;               // a pair is blocks 0 and 1, 2 and 3, ... (1) or 0 and 2, 1 and 3, 4 and 6, ... (2)
  int first_pair = 0, end_pair = 0;  // pairs of input blocks inside the image
  bool guard = false;                // these pairs depend on the warp

  constexpr int unit() const { return 16 * pair_stride; }  // columns
  constexpr int pairs() const {
    return (blocks + spans - 1 + lag + 2 * pair_stride - 1) / (2 * pair_stride) * pair_stride;
  }
  // First block of a pair; the second one is `apart` further on.
  static constexpr TC_HD int block(int pair, int pair_stride) {
    return pair / pair_stride * 2 * pair_stride + pair % pair_stride;
  }
};

constexpr int kLargeMmaZeros = 512;                 // bytes of zeros, for rows outside: the pairs of a warp
constexpr int kLargeMmaHead = kLargeMmaZeros + 16;  // with a barrier
constexpr int kLargeMmaLead = 14;                   // taps (zeros) before the first one of a row of the table

// Words of a row of the table of taps.
constexpr int large_mma_row_words(int spans) { return 4 * spans + 8; }

// A block computes a tile of outputs of `images` images and `channels` channels.
struct LargeMmaShape {
  LargeMmaPolicy tile;
  int images = 0, strips = 0, strip_bits = 0;  // 16 in all; strips are 1 << strip_bits
  int strip_rows = 0;
  int channels = 0;
  int tile_h = 0, tile_w = 0, tiles_y = 0, tiles_x = 0;
  int row_groups = 0, column_tiles = 0;  // warps' tiles of one channel
  int lead = 0;                          // columns from a warp's first pair of input blocks to its first output
  int shift = 0;                         // taps from the begin of the input blocks to that of the window
  int slab_columns = 0;
  int pitch = 0, gap = 0, strip_stride = 0, image_stride = 0;  // bytes in shared memory
  int table = 0, second_copy = 0;                              // bytes from a channel's start
  int channel_bytes = 0;
  int warps = 0;
};

struct LargeMmaArgs {
  Depthwise p;
  LargeMmaShape s;
  unsigned channel_groups;
  FastDivisor by_kw, by_tiles_x, by_tiles_y, by_channel_groups, by_per_channel, by_column_tiles, by_multiplier;
  int plane_bytes;              // of a plane that one bulk copy loads; 0: threads load rows
  int load_bytes, store_bytes;  // of a vector: 16, 8, 4 or 2
};

}  // namespace torch_conv::depthwise
