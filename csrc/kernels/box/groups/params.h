// GROUPS: threads and parameters.
#pragma once

#include "kernels/box/shared/finish.h"

namespace torch_conv::box {

constexpr int kGroupThreads = 32 * kGroup;  // a warp for each row

struct GroupArgs {
  Image in, out;
  int64_t work;  // tiles of all planes, one a block
  int kh, kw, pad_y, pad_x;
  int tile_w, tiles, groups;
  int phase;  // rows of the first group before the first output
  bool divides, far_h;
  double outside;
  Reciprocal<double> area;
  Border border;
  Finish finish;
};

}  // namespace torch_conv::box
