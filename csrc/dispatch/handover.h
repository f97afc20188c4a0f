// Where torch's conv1d, conv2d and conv3d are ahead of our kernels: what algorithm 'auto' hands over. Numbers only.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace torch_conv {

// A convolution that our kernels serve, as the table sees it. Of an image in shards, the whole.
struct Convolution {
  bool cuda;
  int axes;
  Dtype dtype;
  bool channels_last;  // the channels lie side by side
  bool zeros;          // outside; else torch extends the image in a pass of its own
  int64_t channels, groups, outputs;
  int64_t n, d, h, w;  // of the volume; of an image d is 1, of a signal h too
  int64_t kd, kh, kw;
  int64_t stride, dilation;  // the largest
};

// Why torch computes it, a sentence with the times measured; null where our kernels do.
const char* handed_over(const Convolution& conv);

}  // namespace torch_conv
