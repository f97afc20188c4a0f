// The product between a filter's two transforms, on the CPU. The product of torch rounds the last numbers of a thread's
// range differently, and so its bits depend on the number of threads. They also depend on an image's position in a
// batch.
#pragma once

#include "core/dtype.h"

namespace torch_conv::overlap_save {

// Dense spectra of `count` tiles for each of n * c images, and those of their windows. A spectrum has `rows` rows of
// `size` complex numbers. Strides are in complex numbers; a stride of 0 shares a window.
struct Spectra {
  void* tiles;
  const void* windows;
  Dtype dtype;  // of a complex number's halves
  int64_t n, c, count, rows, size;
  int64_t stride_n, stride_c;
};

void multiply(const Spectra& p);

}  // namespace torch_conv::overlap_save
