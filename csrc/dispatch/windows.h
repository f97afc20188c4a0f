// Checked kernel tensors -> Taps: in the accumulation dtype, flipped and normalised.
#pragma once

#include "graph/call.h"

namespace torch_conv {

// `tensor` keeps the memory alive until the launch is enqueued. In a call on shards the memory may be another GPU's,
// where kernels can read it.
struct Window {
  Tensor tensor;
  Taps taps;
  Extent size;
};

struct WindowOptions {
  bool flip = false;        // true convolution
  bool normalized = false;  // divide by the sum of the |taps|
  bool narrow = false;      // keep taps that have the image's 16-bit dtype
};

// A kernel of `axes` dimensions, (kH, kW) or (kD, kH, kW), after none, (1|B) or (1|B, 1|C). One axis belongs to a
// separable filter: its extent is size.w.
Window prepare_window(const Call& call, const Tensor& kernel, int axes, const Tensor& input, const Image& image,
                      const WindowOptions& options);
// Converts narrow taps to the accumulation dtype of the image.
void widen(const Call& call, Window& window, const Tensor& input, Dtype image);
// The taps of `prepare_window` for a kernel on the CPU. Calls that do not run get them too.
Tensor host_taps(const Tensor& kernel, Dtype image, int axes, const WindowOptions& options);
// A convolution's weight (C_out, C_in / groups, [kD,] kH, kW).
Window prepare_weight(const Call& call, const Tensor& weight, const Image& image);

// One tap of 1 for all samples and channels, for sums of a dtype.
Taps one_tap(const Call& call, Dtype sums, bool on_host);

// The taps after `widen` (unless `narrow`) and `upload_large`, but for their address, which plans do not need.
Taps taps_after_upload(const Window& window, Dtype image, bool narrow);
// Moves taps to the images' device, on its current stream.
void upload(const Call& call, Window& window, const Tensor& input);
// Uploads taps on the host that are too large for a kernel's parameters.
void upload_large(const Call& call, Window& window, const Tensor& input);

}  // namespace torch_conv
