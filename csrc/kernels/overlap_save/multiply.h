// The product between a filter's two transforms, on the CPU. torch's own rounds the numbers that end a thread's share
// in another way than those within, so its bits depend on the number of threads and on where an image lies in a batch.
#pragma once

#include "core/dtype.h"

namespace torch_conv::overlap_save {

// Dense spectra of `count` tiles for each of n * c images, `rows` rows of `size` complex numbers each, times those of
// their windows; a stride of 0 shares a window. Strides in complex numbers.
struct Spectra {
  void* tiles;
  const void* windows;
  Dtype dtype;  // of a complex number's halves
  int64_t n, c, count, rows, size;
  int64_t stride_n, stride_c;
};

void multiply(const Spectra& p);

}  // namespace torch_conv::overlap_save
