// The parameters of the variants for integers.
#pragma once

#include "kernels/box/shared/finish.h"

namespace torch_conv::box {

struct IntegerArgs {
  const void* in;
  void* out;
  int64_t in_stride_n, in_stride_c, in_stride_h, in_stride_w;
  int64_t out_stride_n, out_stride_c, out_stride_h, out_stride_w;
  int64_t planes, channels, work;  // work: tiles of all planes, one a block
  int in_h, in_w, out_h, out_w;
  int kh, kw, pad_y, pad_x;
  int tile_w, strip_h, tiles, strips;
  bool carry;      // shared memory has a buffer to carry column sums over to the columns that repeat them
  int pack_pitch;  // bytes between rows that can be copied as aligned vectors, 0 if they cannot
  bool out_packs;  // outputs of dense rows can be stored as aligned vectors
  double scale, value;
  Border border;
  Finish finish;
  Dtype out_dtype;
};

}  // namespace torch_conv::box
