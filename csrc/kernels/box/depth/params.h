// The depth pass: threads, batches, and parameters.
#pragma once

#include "kernels/box/shared/finish.h"

namespace torch_conv::box {

constexpr int kDepthThreads = 128;

// Outputs of a thread whose planes are loaded together, and blocks per multiprocessor (the register cap). One NVIDIA
// H200, 9 planes, % of copy, 16 and 8 outputs: float32 sums at 512^3 92, 82-85; uint8 means at 256^3 35, 47.
constexpr int depth_batch(bool integer_output) { return integer_output ? 8 : 16; }
constexpr int depth_blocks(bool integer_output) { return integer_output ? 4 : 2; }

// Blocks per multiprocessor of DEPTH_GROUPS and of DEPTH_RING.
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
  // For floats: the position of chunk 0 in a group of 8 planes, and 1 / voxels if the outputs are means.
  int phase;
  Reciprocal<double> reciprocal;
  bool divides;  // by the size of the window
};

}  // namespace torch_conv::box
