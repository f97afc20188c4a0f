// What PLANES_MMA's launch and kernel agree on.
#pragma once

#include "core/problem.h"

namespace torch_conv::depthwise {

constexpr int kMmaMostStages = 8;
constexpr int kMmaGuard = 128;  // bytes before the first stage: windows begin left of their planes

// The banded windows of one channel in shared memory: rows -1 .. kh, each as 16 words of two taps, twice.
constexpr int mma_table_bytes(int kh) { return (kh + 2) * 128; }

// Which rows of the input a strip's window sees. `any`: each may lie outside. `inner`: those between its first and its
// last output row lie inside. `whole`: just those; a strip is a whole plane.
enum class MmaRows { any, inner, whole };

// A step of a block: kGroup channels of `images` images. A channel's planes of a step are `units` units: 8 columns of
// `S` (a template argument) rows; a warp takes 8 units of one channel at a time.
struct PlanesMmaArgs {
  const void *in, *weight, *bias;
  void* out;
  int64_t stride_n_in, stride_n_out;
  int n, c, h, w, h_out, w_out;
  int kw, pad_y, pad_x;
  int lead;  // a unit's window of 16 columns begins so many columns left of its outputs
  int tiles, strips, images, units, passes;
  int over_tiles, over_strips;  // 2^16 over them, rounded up: quotients of numbers below 2^16 / tiles, 2^16 / strips
  int chunks;                   // steps of the same channels
  int each, more;               // steps a block; the first `more` blocks take another
  int stages, image_bytes, image_bytes_out;  // in shared memory, from one image of a step to the next
};

}  // namespace torch_conv::depthwise
