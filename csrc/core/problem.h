// What a room is asked to compute: plain numbers, no torch.
//
// Axes stand in the order n, c, h, w. Sizes and strides are in elements, never bytes.
// Taps and bias are in the accumulation dtype: float64 for float64 images, else float32.
// Taps are correlated as they lie (the hall has flipped them if a convolution was asked for)
// and already divided by their sum if `normalized` was asked for (box and skip excepted).
#pragma once

#include <cstdint>

#include "core/border.h"
#include "core/dtype.h"

namespace torch_conv {

constexpr TC_HD int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr TC_HD int64_t round_up(int64_t a, int64_t multiple) { return ceil_div(a, multiple) * multiple; }

struct Image {
  void* data;
  Dtype dtype;
  int64_t n, c, h, w;
  int64_t stride_n, stride_c, stride_h, stride_w;
};

// Where output (y, x) reads: tap (i, j) lies on input
// (y * stride_y + i * dilation_y - pad_y, x * stride_x + j * dilation_x - pad_x).
struct Placement {
  int64_t pad_y, pad_x;
  int64_t stride_y = 1, stride_x = 1;
  int64_t dilation_y = 1, dilation_x = 1;
  Border border = Border::constant;
  double value = 0;         // what Border::constant reads outside
  bool normalized = false;  // only with Border::skip: divide by the sum of the |taps| inside
};

// A set of windows; a stride of 0 shares one window along that axis.
struct Taps {
  const void* data;
  bool on_host;       // CUDA: `data` is host memory and travels with the launch (at most kInlineTapBytes)
  int64_t stride_n;   // elements from one sample's window to the next
  int64_t stride_c;   // ... one output channel's to the next
  int64_t stride_ci;  // ... one input channel's to the next, within a group (convolutions)
};

// Host taps up to this size travel as kernel parameters; the hall uploads larger ones to device memory first, so a
// room never sees on_host beyond it. Larger parameters cost time at every launch (3200 bytes: 1.5-2 us on one NVIDIA
// H200), an upload is one small launch more.
constexpr int64_t kInlineTapBytes = 256;

// out[n, co] = bias[co] + sum over the group's ci, then i, then j (in this order, one fma chain that
// starts at 0) of taps[n, co, ci][i, j] * in[n, ci]. A filter is the depthwise case: groups == c.
struct Direct2d {
  Image in, out;
  Taps taps;
  int64_t kh, kw;
  Placement place;
  int64_t groups;
  const void* bias;  // one per output channel, on the images' device, or null
  bool one_window() const { return taps.stride_n == 0 && taps.stride_c == 0; }
};

// out = column pass over taps_y of the row pass over taps_x, on the extended image; intermediates in
// the accumulation dtype. The row pass (x) comes first, each pass one fma chain that starts at 0.
// in and out have the same channels. stride_ci is unused.
struct Separable2d {
  Image in, out;
  Taps taps_x, taps_y;
  int64_t kh, kw;
  Placement place;
};

// out = window sum * scale (Border::skip with place.normalized: window sum / number of pixels inside).
// Strides and dilations are 1.
struct Box2d {
  Image in, out;
  int64_t kh, kw;
  double scale;
  Placement place;
};

// A textbook kernel of the ladder (float32, contiguous, zero padding, radius k / 2, square odd window). Its taps lie in
// constant memory, as the textbook has it: a kernel's parameters, 4 KiB in all.
constexpr int64_t kLadderTapBytes = 3200;

struct Ladder2d {
  const float* in;
  float* out;
  const float* taps;  // host memory, k * k
  int64_t planes, h, w;
  int k;
  int block_x, block_y;
};

}  // namespace torch_conv
