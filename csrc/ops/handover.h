// Where torch's conv1d and conv2d are ahead of our kernels: what algorithm 'auto' hands over. Numbers only.
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
  int64_t n, h, w;  // of the image; of a signal h is 1
  int64_t kh, kw;
  int64_t stride, dilation;  // the largest
};

// Why torch computes it, a sentence with the times measured; null where our kernels do.
const char* handed_over(const Convolution& conv);

}  // namespace torch_conv
