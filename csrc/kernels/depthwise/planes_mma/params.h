// PLANES_MMA: the template argument and the parameters of its kernel.
#pragma once

#include "core/problem.h"

namespace torch_conv::depthwise {

constexpr int kMmaMostStages = 8;
constexpr int kMmaGuard = 128;  // bytes before the first stage: footprints begin left of their planes

// Bytes of one channel's taps in shared memory: rows -1 .. kh, each as 16 words of two taps, twice.
constexpr int mma_table_bytes(int kh) { return (kh + 2) * 128; }

// The rows of the footprint of a strip. `any`: each row may be outside the image. `inner`: the rows from the first to
// the last output row are inside. `whole`: the strip is a whole plane, and the warp leaves out the rows outside.
enum class MmaRows { any, inner, whole };

// A kernel is compiled for each shape.
struct PlanesMmaPolicy {
  int kh, rows;  // of the window; of a strip
  MmaRows inside;
  int load;          // pixels that a lane reads at once, 4, 2 or 1: a divisor of the width
  bool pairs;        // a lane stores two outputs at once
  bool many_passes;  // more passes than warps
  bool overlap;      // the last strip overlaps the one above it
  int group, warps;  // channels of a block, warps of a channel
  int resident;      // blocks of a multiprocessor
  constexpr int pad() const { return (kh - 1) / 2; }
  // Input rows of a strip that a warp reads, counted from the first of its footprint.
  constexpr int begin() const { return inside == MmaRows::whole ? pad() : 0; }
  constexpr int end() const { return inside == MmaRows::whole ? pad() + rows : rows + kh - 1; }
};

// A step of a block is `group` channels of `images` images. The planes of a channel in a step are `units` units: 8
// columns of a strip. A warp computes 8 units of one channel at a time.
struct PlanesMmaArgs {
  const void *in, *weight, *bias;
  void* out;
  int64_t stride_n_in, stride_n_out;
  int n, c, h, w, h_out, w_out;
  int kw, pad_y, pad_x;
  int lead;  // columns from the first of a unit's 16 input columns to its outputs
  int tiles, strips, images, units, passes;
  int over_tiles, over_strips;  // 2^16 / tiles and 2^16 / strips, rounded up: for divisions of numbers below them
  int chunks;                   // steps of the same channels
  int each, more;               // steps of a block; the first `more` blocks take one more
  int stages, image_bytes, image_bytes_out;  // in shared memory, from one image of a step to the next
};

}  // namespace torch_conv::depthwise
