// The problems of the ladder's kernels.
#pragma once

#include <cstdint>

namespace torch_conv {

// A textbook kernel of the ladder (float32, contiguous, zero padding, radius k / 2, square odd window). Its taps are in
// constant memory, which holds a kernel's parameters: 4 KiB.
constexpr int64_t kLadderTapBytes = 3200;

struct Ladder2d {
  const float* in;
  float* out;
  const float* taps;  // host memory, k * k
  int64_t planes, h, w;
  int k;
  int block_x, block_y;
};

// A signal ladder's problem: rows of w numbers, an odd window.
struct Ladder1d {
  const float* in;
  float* out;
  const float* taps;  // host memory
  int64_t rows, w;
  int k;
  int block;  // threads, one for each number

  // Shared memory of a block of the rung `tiled`: its tile and the halo.
  int64_t tile_bytes() const { return 4 * (int64_t(block) + k - 1); }
};

// A volume ladder's problem: odd windows of any three extents. `taps` holds kd * kh * kw taps; the separable rung takes
// kd + kh + kw: along z, then y, then x. A launch may carry 32764 bytes of parameters.
constexpr int64_t kLadder3dTapBytes = 32000;

struct Ladder3d {
  const float* in;
  float* out;
  const float* taps;  // host memory
  int64_t volumes, d, h, w;
  int kd, kh, kw;
  int block_x, block_y, block_z;
  float* scratch;  // as large as out; only the separable rung on CUDA has it

  // Shared memory of a block of the tiled rungs: its tile, and the halo of a window of these extents.
  int64_t tile_bytes(int64_t window_d, int64_t window_h, int64_t window_w) const {
    return 4 * (block_z + window_d - 1) * (block_y + window_h - 1) * (block_x + window_w - 1);
  }
};

}  // namespace torch_conv
