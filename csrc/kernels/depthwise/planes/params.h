// What PLANES' launch and kernel agree on: all sizes of a plane, and the launch's parameters.
#pragma once

#include "core/problem.h"

namespace torch_conv::depthwise {

// What a kernel is compiled for. A thread computes px pixels of ry rows; a block, `group` channels of an image at once.
struct PlanesShape {
  int h, w, out_h, out_w;
  int kh, kw, stride_y, stride_x, dilation_y, dilation_x, pad_y, pad_x;
  int px, ry, group, multiplier;
  bool shifted;  // planes do not start on 16 bytes
  // Input columns and rows that the thread's outputs see.
  constexpr int columns() const { return (px - 1) * stride_x + (kw - 1) * dilation_x + 1; }
  constexpr int rows() const { return (ry - 1) * stride_y + (kh - 1) * dilation_y + 1; }
  constexpr int strips() const { return (out_w + px - 1) / px; }
  constexpr int bands() const { return (out_h + ry - 1) / ry; }
  constexpr int threads() const { return (group * strips() * bands() + 31) / 32 * 32; }
  // Shared memory, in bytes: zeros, the stages, two buffers of results.
  constexpr int zeros_lead(int size) const { return (pad_x * size + 127) / 128 * 128; }
  constexpr int zeros(int size) const { return zeros_lead(size) + ((columns() + 32) * size + 127) / 128 * 128; }
  constexpr int stage(int size) const { return (group * h * w * size + 127 + 32 * shifted) / 128 * 128; }
  constexpr int result(int size) const { return (group * out_h * out_w * size + 127 + 32 * shifted) / 128 * 128; }
};

struct PlanesArgs {
  const void *in, *weight, *bias;
  void* out;
  int64_t in_n, out_n;                // elements from an image to the next one
  int channels;                       // of outputs
  unsigned images, jobs, each, more;  // job: a group of channels of an image; `each` jobs a block, one more for `more`
  int stages;
};

}  // namespace torch_conv::depthwise
