// Kernels given as tensors -> Taps: shapes checked, in the accumulation dtype, flipped and normalised.
#pragma once

#include "ops/images.h"

namespace torch_conv {

// `tensor` keeps the memory alive until the launch is enqueued.
struct Window {
  Tensor tensor;
  Taps taps;
  int64_t kh, kw;
};

struct WindowOptions {
  bool flip = false;        // true convolution
  bool normalized = false;  // divide by the sum of the |taps|
};

// A filter's kernel: (kH, kW), (1|B, kH, kW) or (1|B, 1|C, kH, kW).
Window prepare_window2d(const char* op, const Tensor& kernel, const Tensor& input, const Image& image,
                        const WindowOptions& options);
// One axis of a separable filter: (k,), (1|B, k) or (1|B, 1|C, k); `vertical` makes it k x 1 instead of 1 x k.
Window prepare_window1d(const char* op, const char* argument, const Tensor& kernel, const Tensor& input,
                        const Image& image, bool vertical, const WindowOptions& options);
// A convolution's weight (C_out, C_in / groups, kH, kW).
Window prepare_weight(const Tensor& weight, const Image& image);

// Moves host taps that are too large for a kernel's parameters to the images' device, on `stream`.
void upload_large(Window& window, const Tensor& input, void* stream);

}  // namespace torch_conv
