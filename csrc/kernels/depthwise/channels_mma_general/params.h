// CHANNELS_MMA_GENERAL: the parameters of its kernel.
#pragma once

#include "core/problem.h"
#include "core/tile_order.h"

namespace torch_conv::depthwise {

constexpr int kChannelsGeneralWarps = 4;                             // of a block, with 4 channels each
constexpr int kChannelsGeneralChannels = 4 * kChannelsGeneralWarps;  // of a block
constexpr int kChannelsGeneralRows = 8;                              // of a block, of outputs
constexpr int kChannelsGeneralOutputs = 7;                           // of a tile

// Bytes of a block's weights as operands of mma: two pairs of channels of a warp, 16 bytes of a lane a window row.
constexpr int channels_general_bytes(int kh) { return kChannelsGeneralWarps * kh * 2 * 32 * 16; }

// CHANNELS_MMA's pixels in shared memory: one row of `images` images after the other, `pitch` pixels apart, for `tiles`
// tiles of each; behind `rows` of them are zeros. The last slots of a tile may be beyond its image's row there. Their
// weights are 0, but a pixel there that is not finite makes the tile's sums NaN.
struct ChannelsMmaSlots {
  int tiles, images, pitch, rows;
};

struct ChannelsMmaGeneralArgs {
  Depthwise p;
  ChannelsMmaSlots slots;
  unsigned tiles;                    // of all images, in a row of outputs
  int together;                      // channels whose outputs are chains if a weight of one is not finite
  FastDivisor across, chunks, rows;  // tiles of an image's row, groups of 16 channels, groups of 8 rows
};

}  // namespace torch_conv::depthwise
