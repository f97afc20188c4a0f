// GROUPS: threads and parameters.
#pragma once

#include "kernels/box/shared/finish.h"

namespace torch_conv::box {

constexpr int kGroupThreads = 32 * kGroup;  // a warp for each row

struct GroupArgs {
  Image in, out;
  int64_t work;  // blocks' worth of work over all planes
  int kh, kw, pad_y, pad_x;
  int tile_w, tiles, groups;
  int phase;  // rows of the first group before the first output
  bool mean, far_h;
  double outside;
  Reciprocal<double> area;
  Border border;
  Finish finish;
};

}  // namespace torch_conv::box
