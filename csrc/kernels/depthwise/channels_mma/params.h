// CHANNELS_MMA: the template argument and the parameters of its kernel.
#pragma once

#include "core/problem.h"
#include "core/tma.h"

namespace torch_conv::depthwise {

// A block computes `channels` channels of `tiles` adjacent tiles, of as many images as eight columns hold, from the top
// rows to the last. A channel of a pixel has 2 bytes.
struct ChannelsMmaPolicy {
  int kh, kw, tiles, channels, stages;
  int resident;                                                  // blocks of a multiprocessor
  static constexpr int kColumns = 8, kOutputs = 7, kSlots = 16;  // of an mma: columns, outputs and pixels of each
  static constexpr int kOutBuffers = 3;  // of finished rows: two at the end of an image, one before

  constexpr int threads() const { return channels / 4 * 32; }  // a warp has four channels
  constexpr int images() const { return tiles == 1 ? 8 : tiles == 2 ? 4 : tiles <= 4 ? 2 : 1; }
  constexpr int columns() const { return images() * tiles; }
  // Rows of a stage. The row modulo this number selects the registers of a sum, so that a window may not be higher.
  constexpr int rows() const { return kh > 7 ? kh : 7; }
  constexpr int width() const { return kOutputs * tiles; }
  constexpr int pixel_bytes() const { return 2 * channels; }
  // A row of all images is a multiple of 8 pixels, the period of the swizzle. With one tile an image, an odd pitch
  // spreads the columns over the banks.
  constexpr int even(int pixels) const {
    const int multiple = 8 / images();
    return (pixels + multiple - 1) / multiple * multiple;
  }
  // Pixels from one image's row to the next one's.
  constexpr int pitch() const { return tiles == 1 ? (width() + kw - 1) | 1 : even(width() + kw - 1); }
  constexpr int out_pitch() const { return even(width()); }
  constexpr int row_bytes() const { return images() * pitch() * pixel_bytes(); }
  // Pixels of zeros follow the rows of a stage, for the slots of the last tile beyond its footprint.
  constexpr int stage_bytes() const { return round_to_swizzle(rows() * row_bytes() + kSlots * pixel_bytes()); }
  constexpr int out_row_bytes() const { return images() * out_pitch() * pixel_bytes(); }
  constexpr int out_bytes() const { return round_to_swizzle(rows() * out_row_bytes()); }
  constexpr int shared_bytes() const { return stages * stage_bytes() + kOutBuffers * out_bytes(); }
  constexpr int round_to_swizzle(int bytes) const {
    return (bytes + 8 * pixel_bytes() - 1) / (8 * pixel_bytes()) * 8 * pixel_bytes();
  }
};

// The order of steps, outermost first: groups of images, segments of `width` columns, blocks of rows.
struct ChannelsMmaArgs {
  Depthwise p;
  int chunks;    // of channels; a block has chunk blockIdx.x % chunks
  int segments;  // of a row
  int blocks_y;  // of rows()
  int each;      // steps of a block
  int total;     // steps of a chunk
  int zero;      // 0, hidden from the compiler
};

}  // namespace torch_conv::depthwise
