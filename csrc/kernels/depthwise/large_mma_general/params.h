// LARGE_MMA_GENERAL: the order of a sum, and the parameters of its kernel.
#pragma once

#include "core/problem.h"
#include "core/tile_order.h"

namespace torch_conv::depthwise {

constexpr int kLargeGeneralWarps = 4;    // of a block
constexpr int kLargeGeneralBlocks = 4;   // of 8 output columns, of a warp
constexpr int kLargeGeneralTiles = 4;    // of a warp
constexpr int kLargeGeneralWindow = 33;  // rows at most
constexpr int kLargeGeneralSpans = 6;    // at most

// A block is 8 columns. Blocks of pixels start at the image's first column.
struct LargeMmaOrder {
  int spans;        // blocks of pixels that a block of outputs reads
  int ahead;        // blocks from the first of them to the block of outputs
  int shift;        // taps from the begin of the spans to that of the window
  int pair_stride;  // an mma has blocks 0 and 1, 2 and 3, ... (1) or 0 and 2, 1 and 3, 4 and 6, ... (2)
  int units;        // of 2 * pair_stride blocks, that begin inside the image
  int channels;     // whose outputs are chains if one of their taps is not finite
};

// A tile is 16 rows of outputs, of any images, and 4 blocks of columns.
struct LargeMmaGeneralArgs {
  Depthwise p;
  LargeMmaOrder order;
  unsigned rows;              // of a channel's outputs in all images
  unsigned tiles, blocks;     // of a channel
  FastDivisor across, plane;  // tiles of a row of tiles, rows of a plane of outputs
};

}  // namespace torch_conv::depthwise
