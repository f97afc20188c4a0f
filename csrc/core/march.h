// What the host and kernels that march through volumes agree on: where a window's taps stand.
#pragma once

#include <cstdint>

#include "core/border.h"
#include "core/problem.h"

namespace torch_conv {

constexpr int kTapPitch = 16;     // floats of one window in shared memory
constexpr int kMostPlanes = 512;  // that a block reads: where they lie stands in shared memory

// Are the zeros that bulk copies bring from outside the volume not what the border asks for?
inline bool patches_border(Border border, double value) {
  return border != Border::zero_output && !(border == Border::constant && value == 0);
}

// The taps of one axis in a kernel's parameters.
struct MarchTaps {
  const void* device;  // null: the taps stand in the parameters, from `start` on
  int start;
  int64_t stride_n, stride_c;
};

}  // namespace torch_conv
