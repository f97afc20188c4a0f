// PLANES: the template argument and the parameters of its kernel.
#pragma once

#include "core/problem.h"

namespace torch_conv::depthwise {

// A kernel is compiled for each shape. A thread computes px pixels of ry rows. A block computes `group` channels of an
// image at once.
struct PlanesPolicy {
  int h, w, out_h, out_w;
  int kh, kw, stride_y, stride_x, dilation_y, dilation_x, pad_y, pad_x;
  int px, ry, group, multiplier;
  bool shifted;  // planes do not start on 16 bytes
  int resident;  // blocks of a multiprocessor
  // The footprint of a thread's outputs, in pixels.
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
  int64_t in_n, out_n;  // strides
  int channels;         // of outputs
  // A job is a group of channels of an image. A block computes `each` jobs, the first `more` blocks one job more.
  unsigned images, jobs, each, more;
  int stages;
};

}  // namespace torch_conv::depthwise
