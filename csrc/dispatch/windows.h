// Kernels given as tensors -> Taps: shapes checked, in the accumulation dtype, flipped and normalised.
#pragma once

#include "tensors/call.h"

namespace torch_conv {

// `tensor` keeps the memory alive until the launch is enqueued. Of a call on shards it may be another GPU's, which
// kernels can read.
struct Window {
  Tensor tensor;
  Taps taps;
  Extent size;
};

struct WindowOptions {
  bool flip = false;        // true convolution
  bool normalized = false;  // divide by the sum of the |taps|
  bool narrow = false;      // leave them as they are where they came in the 16-bit dtype of the image
};

// A filter's kernel of `axes` dimensions, (kH, kW) or (kD, kH, kW), before them none, (1|B) or (1|B, 1|C). One axis is
// that of a separable filter, for an image of `image_axes`: its extent stands in size.w.
Window prepare_window(const Call& call, const char* argument, const Tensor& given, int axes, const Tensor& input,
                      const Image& image, int image_axes, const WindowOptions& options);
// Narrow taps in the accumulation dtype of the image; others stay as they are.
void widen(const Call& call, Window& window, const Tensor& input, Dtype image);
// Such a kernel on the CPU as `prepare_window` makes it contiguous, in the accumulation dtype, flipped and normalised;
// of calls that only ask too.
Tensor host_taps(const Tensor& kernel, Dtype image, int axes, const WindowOptions& options);
// A convolution's weight (C_out, C_in / groups, [kD,] kH, kW).
Window prepare_weight(const Call& call, const Tensor& weight, const Image& image);

// One tap of 1 for all samples and channels, for sums of a dtype.
Taps one_tap(const Call& call, Dtype sums, bool on_host);

// Moves taps to the images' device, on its current stream: all, or those of the host too large for a kernel's
// parameters.
// The taps, but for their address, as they will be after `widen` (unless `narrow`) and `upload_large`: plans need no
// more.
Taps taps_after_upload(const Window& window, Dtype image, bool narrow);
void upload(const Call& call, Window& window, const Tensor& input);
void upload_large(const Call& call, Window& window, const Tensor& input);

}  // namespace torch_conv
